"""What the package's step methods have in common towards ``pm.sample``."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from pymc.step_methods import BlockedStep
from pymc.step_methods.compound import Competence
from rich.progress import TextColumn
from rich.table import Column

from pymc_logz.arguments import check_compile_kwargs
from pymc_logz.models.context import check_no_model


class ChosenStep(BlockedStep):
    """A step method that runs only if asked for, with some statistics on the progress bar."""

    shown: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Statistics on the progress bar: heading and format of each."""
    __signature__: ClassVar[inspect.Signature]
    failing: ClassVar[str | None] = None
    """Statistic that counts failures, which turn the bar red."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """PyMC's, after a look at what may have been put in another one's place."""
        check_no_model(f"{cls.__name__}(model=model)", vars=args[0] if args else None)
        check_compile_kwargs(kwargs.get("compile_kwargs"))
        return super().__new__(cls, *args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Each has the signature of its own ``__init__``, where PyMC's ``__new__`` shows none."""
        super().__init_subclass__(**kwargs)
        own = list(inspect.signature(cls.__init__).parameters.values())
        cls.__signature__ = inspect.Signature(own[1:])

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen unless asked for."""
        return Competence.INCOMPATIBLE

    @staticmethod
    def check_untouched(
        values: Mapping[str, np.ndarray], point: Mapping[str, np.ndarray], reason: str
    ) -> None:
        """Raise if a value variable that this method alone may move is elsewhere in the point."""
        for name, value in values.items():
            if not np.array_equal(value, point[name]):
                raise RuntimeError(f"another step method moved {name!r}, {reason}")

    @classmethod
    def _progressbar_config(cls, n_chains: int = 1) -> tuple[list[Any], dict[str, Any]]:
        columns = [
            TextColumn(f"{{task.fields[{name}]:{form}}}", table_column=Column(heading, ratio=1))
            for name, (heading, form) in cls.shown.items()
        ]
        return columns, {name: [0] * n_chains for name in cls.shown}

    @classmethod
    def _make_progressbar_update_functions(cls) -> tuple[Callable[[Any], dict[str, Any]]]:
        def update(stats: Mapping[str, Any]) -> dict[str, Any]:
            shown = {name: stats[name] for name in cls.shown}
            return shown | {"failing": cls.failing is not None and stats[cls.failing] > 0}

        return (update,)
