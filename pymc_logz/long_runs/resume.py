"""How far a run that is kept has come, read from its checkpoint alone."""

import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymc_logz.long_runs.checkpoint import header_of
from pymc_logz.long_runs.identity import REQUEST, SEED

CHAIN = re.compile(r"(?P<name>.+)\.chain-(?P<chain>\d+)\.(?P<state>\d+)")
"""Names of groups that are states of chains."""
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
        done, total = (
            (sum(column) for column in zip(*self.chains.values(), strict=True))
            if (self.chains)
            else (0, 0)
        )
        return done / total if total else 0.0

    def __str__(self) -> str:
        chains = f" with {self.settings['chains']} chains" if "chains" in self.settings else ""
        ends = "finished" if self.is_finished else "not finished: the same call goes on from here"
        lines = [
            f"{self.path}: a run of {self.method!r}{chains}, {ends}",
            f"last written {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.written))}",
            f"made: {', '.join(self.records) or 'nothing yet'}",
        ]
        for name, (done, total) in self.chains.items():
            lines.append(f"{name}: {done} of {total} moves ({done / max(total, 1):.0%})")
        return "\n".join(lines)


def resume(path: str | os.PathLike) -> KeptRun:
    """How far a run with a checkpoint has come; to go on with it, call it again as before.

    Nothing is unpickled, computed or changed, and no model is needed.

    Parameters
    ----------
    path
        What was given as ``checkpoint``.

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

        lz.sample_hais(model=model, checkpoint="run.zarr")
        print(lz.resume("run.zarr"))  # forward-1.chain-0: 8 of 8 moves (100%)
    """
    path = Path(path)
    identity = header_of(path)["identity"]
    newest: dict[str, tuple[int, Path]] = {}
    records, within, written = [], dict[str, tuple[int, int]](), path.stat().st_mtime
    for entry in sorted(path.iterdir()):
        written = max(written, entry.stat().st_mtime)
        if entry.name.startswith(".") or not entry.is_dir() or ".part-" in entry.name:
            continue
        if MODEL.fullmatch(entry.name):
            within |= {f"{entry.name}: {name}": n for name, n in resume(entry).chains.items()}
            continue
        if (found := CHAIN.fullmatch(entry.name)) is None:
            records.append(entry.name)
            continue
        name, state = f"{found['name']}.chain-{found['chain']}", int(found["state"])
        newest[name] = max(newest.get(name, (-1, entry)), (state, entry))
    counted = {name: _counts(entry) for name, (_, entry) in newest.items()}
    chains = within | {name: counts for name, counts in counted.items() if counts is not None}
    made = tuple(name for name in records if name not in (SEED, REQUEST, "finished"))
    settings = identity["settings"]
    return KeptRun(
        path,
        str(settings["method"]),
        settings,
        identity["versions"],
        chains,
        made,
        "finished" in records and all(done == total for done, total in chains.values()),
        written,
    )


def _counts(path: Path) -> tuple[int, int] | None:
    """Moves made and to be made; None if the state is not whole."""
    try:
        attrs = json.loads((path / "zarr.json").read_text())["attributes"]
        return int(attrs["n_done"]), int(attrs["n_total"])
    except (OSError, ValueError, KeyError):
        return None
