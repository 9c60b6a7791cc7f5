"""The evidence of several models, each of which is a unit of work."""

import os
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import xarray as xr

from pymc_logz.choosing.evidence import evidence
from pymc_logz.errors import noting_interrupts, warn
from pymc_logz.long_runs.workers import Workers
from pymc_logz.models.context import is_model, pymc_model_of
from pymc_logz.models.exact import exact_observations
from pymc_logz.models.guards import check_model
from pymc_logz.runners.progress import progress_bar, report_count
from pymc_logz.runners.running import Running, naming, running_for
from pymc_logz.seeds import random_generator, spawn_generators

if TYPE_CHECKING:
    import pymc as pm


def record_of(tree: xr.DataTree) -> dict[str, Any]:
    """A tree of this package, without arrays of objects, as a record."""
    nodes = {node.path: node.to_dataset(inherit=False) for node in tree.subtree}
    groups = {path: group.to_dict(data="array") for path, group in nodes.items()}
    return {"attrs": dict(tree.attrs), "groups": groups}


def tree_of(record: Mapping[str, Any]) -> xr.DataTree:
    """The tree that a record was made of."""
    groups = {path: xr.Dataset.from_dict(group) for path, group in record["groups"].items()}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = dict(record["attrs"])
    return tree


Found = tuple[xr.DataTree, list[Any]]
"""A tree, and what was said of it in another process."""


class ModelTask:
    """One model's evidence, by options of `evidence`, to be found here or in another process."""

    def __init__(self, model: "pm.Model", options: Mapping[str, Any]) -> None:
        self.model, self.options = model, options

    def __call__(self) -> Found:
        """Find it in this process."""
        return evidence(self.model, **self.options), []

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        return partial, (find_remotely, cloudpickle.dumps((self.model, dict(self.options))))


def find_remotely(contents: bytes) -> Found:
    """Find it in another process, whose warnings come back."""
    import cloudpickle

    model, options = cloudpickle.loads(contents)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = evidence(model, **options)
    return tree, [(str(one.message), one.category) for one in caught]


def evidence_of_models(
    models: "Mapping[str, pm.Model]",
    *,
    executor: Any = None,
    checkpoint: str | os.PathLike | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> dict[str, xr.DataTree]:
    """The evidence of several models by name, each computed by `evidence`.

    Parameters
    ----------
    models
        PyMC models by name.
    executor
        What runs the models: any ``concurrent.futures.Executor``; None runs one after the other. It
        changes the wall time, never the result.
    checkpoint
        A folder, such as ``"models.ckpt"``, in which the trees of finished models are stored, and
        the run of each model that is in progress, as `sample_hais` keeps it (not those with exact
        observations, nor along a path from another model). Killed and called again with the same
        arguments, it goes on from there, with the same bits. By an executor, its workers must see
        the folder.
    random_seed
        Anything that ``pm.sample`` takes. Each model has a seed of its own, spawned from it in
        their order.
    progressbar
        Whether to show how many models are done.
    **kwargs
        Passed to `evidence` for each model.

    Returns
    -------
    dict
        A DataTree for each name, in the order given: what `compare_evidence` takes. An interrupt
        (Ctrl-C) returns those that are done.

    Raises
    ------
    CheckpointError
        If the checkpoint is of other models, data or arguments; the message says what differs.
    TypeError
        If ``models`` is no mapping of models.
    ValueError
        If it is empty.

    See Also
    --------
    evidence, compare_evidence

    Examples
    --------
    .. code-block:: python

        import pymc as pm

        import pymc_logz as lz

        with pm.Model() as fair:
            pm.Binomial("y", n=100, p=pm.Beta("p", 50, 50), observed=60)
        with pm.Model() as any_coin:
            pm.Binomial("y", n=100, p=pm.Beta("p", 1, 1), observed=60)

        trees = lz.evidence_of_models({"fair": fair, "any": any_coin}, random_seed=1)
        lz.compare_evidence(trees)
    """
    _check_models(models)
    running, random_seed = running_for(random_seed, 1, executor, checkpoint)
    rng = random_generator(random_seed)
    own = {"method": "evidence_of_models", "order": ", ".join(map(repr, models)), **kwargs}
    with running.kept(own, models, None, rng) as running, progress_bar(progressbar):
        report = report_count("Models", len(models))
        generators = spawn_generators(rng, len(models))
        keeper, said = running.keeper, list[Any]()
        records = {name: f"tree-{i}" for i, name in enumerate(models)}
        kept = {name: keeper.read(one) for name, one in records.items()} if keeper else {}
        done = {name: tree_of(one) for name, one in kept.items() if one is not None}
        report(len(done))
        tasks = {
            name: ModelTask(model, {**_within(running, i, model, kwargs), "random_seed": rng})
            for i, ((name, model), rng) in enumerate(zip(models.items(), generators, strict=True))
            if name not in done
        }
        try:
            with noting_interrupts() as was_interrupted:
                for name, (tree, warned) in _answers(tasks, executor):
                    done[name] = tree
                    said += warned
                    if was_interrupted.is_set():  # the tree is cut short, the last, and not kept
                        raise KeyboardInterrupt
                    if keeper is not None:
                        keeper.write(records[name], record_of(tree))
                    report(1)
        except KeyboardInterrupt:
            if not done:
                raise
            if keeper is not None:
                keeper.is_complete = False
            warn(
                f"interrupted: {len(done)} of {len(models)} models are done, and only they "
                "are returned"
            )
    for message, category in said:
        warnings.warn(message, category, stacklevel=2)
    return {name: done[name] for name in models if name in done}


def _check_models(models: Any) -> None:
    """Raise for what are not models, or for one without a log Z, before others are run."""
    if not isinstance(models, Mapping):
        kind = type(models).__name__
        raise TypeError(f"models is of type {kind}; give PyMC models by name, in a dict")
    if not models:
        raise ValueError("models is empty; give at least one PyMC model by name, in a dict")
    for name, model in models.items():
        if not is_model(model):
            kind = type(model).__name__
            raise TypeError(
                f"models[{name!r}] is of type {kind}; give PyMC models, and whatever else has a "
                "log Z to pymc_logz.evidence, whose trees pymc_logz.compare_evidence takes too"
            )
        if not exact_observations(model):
            naming(name, partial(check_model, pymc_model_of(model), integers=True, fixed=True))


def _within(
    running: Running, i: int, model: "pm.Model", kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Keyword arguments of `evidence` for a model, its own checkpoint inside that of all."""
    given = {"progressbar": False, **kwargs}
    can_be_kept = not exact_observations(model) and not is_model(kwargs.get("reference"))
    if running.keeper is not None and can_be_kept:
        given["checkpoint"] = running.keeper.path / f"model-{i}"
    return given


def _answers(tasks: Mapping[str, ModelTask], executor: Any) -> Iterator[tuple[str, Found]]:
    """What comes of all tasks; those of workers that were lost are done again."""
    if executor is None:
        for name, task in tasks.items():
            yield name, naming(name, task)
        return
    workers = Workers(executor, 1, lambda name: workers.submit(name, tasks[name]))
    with workers:
        for name, task in tasks.items():
            workers.submit(name, task)
        yield from workers.answers()
