"""How far a run that is kept has come, and how a run that has ended gets more draws."""

import json
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from pymc_logz.arguments import check_integer
from pymc_logz.errors import CheckpointError
from pymc_logz.hais.run import run_hais
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.long_runs.checkpoint import Keeper, begun_with, check_path, header_of
from pymc_logz.long_runs.identity import DENSITY, REQUEST, SEED
from pymc_logz.long_runs.records import SUFFIX
from pymc_logz.models.context import ForeignModel, model_from
from pymc_logz.runners.running import running_for
from pymc_logz.tempered.run import run_tempered
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.kinds import HAIS, HAIS_BOTH, TEMPERED, TEMPERED_SUMS, kind_of

if TYPE_CHECKING:
    import pymc as pm

    from pymc_logz.bits.energies import BinaryEnergy

CHAIN = re.compile(r".+\.chain-\d+")
"""Names of records that say where a chain is."""
MODEL = re.compile(r"model-\d+")
"""Names of checkpoints within that of several models."""


@dataclass(frozen=True)
class KeptRun:
    """What a checkpoint holds, see `resume`."""

    path: Path
    method: str
    """``"hais"``, ``"tempered"``, ``"per_datum"``, ``"bridge_sampling"`` or
    ``"evidence_of_models"``."""
    settings: dict[str, Any]
    """Settings of the run."""
    versions: dict[str, str]
    """Libraries that it was begun with."""
    chains: dict[str, tuple[int, int]]
    """Moves made and to be made by each chain that was begun, by name; of several models, those of
    the models that are under way."""
    records: tuple[str, ...]
    """What else was made: the plan, the warm-up."""
    is_finished: bool
    """Whether the run came to its end."""
    written: float
    """When something was last written, in seconds since 1970."""

    @property
    def share_done(self) -> float:
        """Share of the moves of the chains that were begun; 0 before there are any."""
        total = sum(n for _, n in self.chains.values())
        return sum(done for done, _ in self.chains.values()) / total if total else 0.0

    def __str__(self) -> str:
        chains = f" with {self.settings['chains']} chains" if "chains" in self.settings else ""
        ends = "finished" if self.is_finished else "not finished: the same call resumes from here"
        lines = [
            f"{self.path}: a run of {self.method!r}{chains}, {ends}",
            f"last written {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.written))}",
            f"made: {', '.join(self.records) or 'nothing yet'}",
        ]
        for name, (done, total) in self.chains.items():
            lines.append(f"{name}: {done} of {total} moves ({done / max(total, 1):.0%})")
        return "\n".join(lines)


def resume(path: str | os.PathLike) -> KeptRun:
    """Progress of a run with a checkpoint; to continue the run, repeat the original call.

    Nothing is unpickled, computed or changed, and no model is needed.

    Parameters
    ----------
    path
        The folder that was given as ``checkpoint``.

    Returns
    -------
    KeptRun
        Its ``chains``, ``share_done``, ``is_finished``, ``settings`` and ``versions``; printed, a
        few lines.

    Raises
    ------
    CheckpointError
        If there is no checkpoint at this path.

    See Also
    --------
    extend : more draws of a run that is done.

    Examples
    --------
    .. code-block:: python

        import pymc as pm

        import pymc_logz as lz

        with pm.Model() as model:
            p = pm.Beta("p", 1, 1)
            pm.Binomial("y", n=100, p=p, observed=50)

        lz.sample_hais(model=model, checkpoint="run.ckpt")
        print(lz.resume("run.ckpt"))  # forward-1.chain-0: 8 of 8 moves (100%)
    """
    path = check_path(path, "path")
    identity = header_of(path)["identity"]
    keeper, entries = Keeper(path), sorted(path.iterdir())
    names = [entry.stem for entry in entries if entry.suffix == SUFFIX]
    within = {entry.name: resume(entry) for entry in entries if MODEL.fullmatch(entry.name)}
    chains = {
        f"{model}: {name}": counts
        for model, kept in within.items()
        for name, counts in kept.chains.items()
    }
    for name in filter(CHAIN.fullmatch, names):
        if (state := keeper.read(name)) is not None:
            chains[name] = state["job"].n_done, state["job"].n_total
    hidden = (SEED, REQUEST, DENSITY, "finished")
    settings = identity["settings"]
    return KeptRun(
        path,
        str(settings["method"]),
        settings,
        identity["versions"],
        chains,
        tuple(name for name in names if ".chain-" not in name and not name.startswith(hidden)),
        "finished" in names and all(done == total for done, total in chains.values()),
        max(entry.stat().st_mtime for entry in (path, *entries)),
    )


RUNS: dict[str, tuple[Any, Any]] = {
    "hais": (HaisSettings, run_hais),
    "tempered": (TemperedSettings, run_tempered),
}
"""Settings of a method, and what runs it; other targets run it by a function of the same name."""


def extend(
    idata: xr.DataTree,
    model: "pm.Model | BinaryEnergy | None" = None,
    *,
    draws: int,
    checkpoint: str | os.PathLike | None = None,
    executor: Any = None,
    time_limit: float | None = None,
    max_memory: int | str | None = None,
    cores: int | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Extend the run of a tree by more draws, for a smaller error; nothing is run twice.

    The run must have been stored (``checkpoint``): its plan, its seeds and the positions of its
    chains are read from there. New particles of an annealed run follow the same plan, and are
    weighted alike; walkers of a tempered run walk on.

    Parameters
    ----------
    idata
        Of `sample_hais` or `sample_tempered` with a ``checkpoint``, or of this function.
    model
        The model or energy of the run; None takes the one on the context stack.
    draws
        Particles, or iterations of each walker, to be added to every chain, at least 2.
    checkpoint
        Where the checkpoint is now, if it was moved.
    executor, time_limit, max_memory, cores, progressbar
        As in `sample_hais`.

    Returns
    -------
    xarray.DataTree
        As of the call that began the run, with all of its draws.

    Raises
    ------
    CheckpointError
        If the checkpoint is of another run, or not all of its settings are stored.
    ValueError
        If the run of the tree was not stored.

    See Also
    --------
    resume : progress of a run.

    Examples
    --------
    .. code-block:: python

        import pymc as pm

        import pymc_logz as lz

        with pm.Model() as model:
            p = pm.Beta("p", 1, 1)
            pm.Binomial("y", n=100, p=p, observed=50)

        tree = lz.sample_hais(model=model, checkpoint="run.ckpt", random_seed=1)
        tree = lz.extend(tree, model, draws=1024)  # half of the error
    """
    check_integer(2, draws=draws)
    tree_kind = kind_of(idata, "idata")
    if tree_kind not in (HAIS, HAIS_BOTH, TEMPERED, TEMPERED_SUMS):
        raise ValueError(
            f"idata is of kind {tree_kind!r}; only runs of sample_hais and sample_tempered can "
            "be added to"
        )
    given = idata.attrs.get("checkpoint") if checkpoint is None else checkpoint
    if given is None:
        raise ValueError(
            "the run of this tree has no checkpoint, so it cannot be extended: run it with "
            "checkpoint='run.ckpt', or pass the folder with checkpoint="
        )
    path = check_path(given)
    method = str(header_of(path)["identity"]["settings"]["method"])
    if method not in RUNS:
        raise CheckpointError(
            f"checkpoint={str(path)!r} is of a run of {method!r}, and only those of sample_hais "
            "and sample_tempered can be added to"
        )
    request = begun_with(path, REQUEST)
    if not request:
        raise CheckpointError(
            f"checkpoint={str(path)!r} is of a run with your own kernel, mode or draws, or "
            "simulated data, which a checkpoint does not store, so the run cannot be extended; "
            "repeating the original call still resumes it"
        )
    kind, run = RUNS[method]
    more = (*json.loads(idata.attrs["settings"]).get("more", ()), draws)
    settings = kind(**{**request["settings"], "more": tuple(more)})
    given = executor, path, time_limit, max_memory, False, cores
    running, rng = running_for(None, settings.chains, *given)
    settings = replace(settings, running=running)
    if isinstance(model, ForeignModel):
        run = getattr(model.runs, run.__name__)
    else:
        model = model_from(model, "extend(idata, model, draws=...)")
    compile_kwargs = request["compile_kwargs"]
    return run(
        model, settings, random_seed=rng, progressbar=progressbar, compile_kwargs=compile_kwargs
    )
