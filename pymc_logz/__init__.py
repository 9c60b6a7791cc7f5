"""The normalising constant of PyMC models: log Z with an error bar that can be trusted."""

from typing import Any

from pymc_logz.wings import lazily

_look_up, _, __all__ = lazily(__name__)
_NEW_NAMES = {
    **{name: f"kernels.{name}" for name in ("Hamiltonian", "Langevin", "RandomWalk", "Slice")},
    **{name: f"estimators.{name}" for name in ("LogZEstimate", "importance_log_z")},
    "log_likelihood": "marginal_log_likelihood",
}
"""Names that version 0.1 had here, and where they are now."""


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first asked for (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: Any = version("pymc-logz")
        except PackageNotFoundError:  # a copy of the sources
            value = "unknown"
    elif name in __all__:
        value = _look_up(name)
    else:
        from difflib import get_close_matches

        close = get_close_matches(name, __all__)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        hint = f"; it is {__name__}.{_NEW_NAMES[name]} now" if name in _NEW_NAMES else hint
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
