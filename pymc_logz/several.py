"""The evidence of several models, each of which is a unit of work."""

import io
import warnings
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from typing import TYPE_CHECKING, Any, NamedTuple

import xarray as xr

from pymc_logz.choosing import evidence
from pymc_logz.models.context import is_model
from pymc_logz.runners.crew import Crew, check_executor, is_loss
from pymc_logz.runners.progress import progress_bar, report_count
from pymc_logz.seeds import random_generator, spawn_generators

if TYPE_CHECKING:
    import pymc as pm


class Found(NamedTuple):
    """A tree, and what was said of it."""

    tree: xr.DataTree
    said: list[Any]
    """Warnings of another process."""


class ModelErrand:
    """One model's evidence, to be found here or in another process.

    Parameters
    ----------
    model
        The model.
    options
        Keyword arguments of `evidence`.
    """

    def __init__(self, model: "pm.Model", options: Mapping[str, Any]) -> None:
        self.model, self.options = model, options

    def __call__(self) -> Found:
        """Find it in this process."""
        return Found(evidence(self.model, **self.options), [])

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        file = io.BytesIO()
        cloudpickle.dump((self.model, dict(self.options)), file)
        return ArrivedModel, (file.getvalue(),)


class ArrivedModel:
    """The same in another process, whose warnings come back."""

    def __init__(self, contents: bytes) -> None:
        self.contents = contents

    def __call__(self) -> Found:
        """Find it."""
        import cloudpickle

        model, options = cloudpickle.loads(self.contents)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tree = evidence(model, **options)
        return Found(tree, [(str(one.message), one.category) for one in caught])


def evidence_of_models(
    models: "Mapping[str, pm.Model]",
    *,
    executor: Any = None,
    random_seed: Any = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> dict[str, xr.DataTree]:
    """The evidence of several models by name, as `evidence` finds that of each.

    Parameters
    ----------
    models
        PyMC models by name.
    executor
        Who finds them: any ``concurrent.futures.Executor``; None finds one after the other. It
        changes the wall time, never the result.
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
        A DataTree for each name, in the order given: what `compare_evidence` takes.

    Raises
    ------
    TypeError
        If ``models`` is no mapping of models.

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
    if not isinstance(models, Mapping) or not all(map(is_model, models.values())):
        raise TypeError(f"models is a {type(models).__name__}; give PyMC models by name, in a dict")
    check_executor(executor)
    generators = spawn_generators(random_generator(random_seed), len(models))
    errands = {
        name: ModelErrand(model, {"random_seed": rng, "progressbar": False, **kwargs})
        for (name, model), rng in zip(models.items(), generators, strict=True)
    }
    with progress_bar(progressbar) as progress:
        report = report_count(progress, "Models", len(models))
        if executor is None:
            found = {}
            for name, errand in errands.items():
                found[name] = errand()
                report(1)
        else:
            found = _by_others(errands, Crew(executor, 1), report)
    for one in found.values():
        for message, category in one.said:
            warnings.warn(message, category, stacklevel=2)
    return {name: found[name].tree for name in models}


def _by_others(errands: Mapping[str, ModelErrand], crew: Crew, report: Any) -> dict[str, Found]:
    """What came of all errands; those of workers that were lost are done again."""
    found: dict[str, Found] = {}
    pending: dict[Future, tuple[str, int]] = {
        crew.submit(errand): (name, 0) for name, errand in errands.items()
    }
    try:
        while pending:
            for future in wait(list(pending), return_when=FIRST_COMPLETED).done:
                name, n_losses = pending.pop(future)
                error = CancelledError() if future.cancelled() else future.exception()
                if error is None:
                    found[name] = future.result()
                    report(1)
                    continue
                if not is_loss(error):
                    error.add_note(f"This was the model {name!r}.")
                    raise error
                if n_losses == crew.n_losses:
                    crew.replace_lost(error)
                pending[crew.submit(errands[name])] = (name, crew.n_losses)
    finally:
        for future in pending:
            future.cancel()
        crew.stop()
    return found
