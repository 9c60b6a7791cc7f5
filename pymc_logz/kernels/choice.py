"""Which kernel: short names, the check of what a user passes, and its record."""

from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any

from pymc_logz.kernels.base import Kernel
from pymc_logz.kernels.hamiltonian import Hamiltonian, Langevin
from pymc_logz.kernels.slice import Slice
from pymc_logz.kernels.walks import RandomWalk

KERNELS: dict[str, Kernel] = {
    "hais": Hamiltonian(),
    "hmc": Hamiltonian(n_steps=4, refreshment=1.0),
    "langevin": Langevin(),
    "random_walk": RandomWalk(),
    "slice": Slice(),
}
"""Settings by short name."""
MEMBERS = {
    name: list(signature(member).parameters)[1:] if callable(member) else None
    for name, member in vars(Kernel).items()
    if not name.startswith("_")
}
"""What `Kernel` asks for, and the arguments of what is a method."""


def as_kernel(kernel: Kernel | str | None) -> Kernel:
    """Kernel settings from themselves, from a short name, or from None for `Hamiltonian`.

    Parameters
    ----------
    kernel
        Settings, a key of `KERNELS`, or None.

    Returns
    -------
    Kernel
        Settings.

    Raises
    ------
    TypeError
        If it is neither a name nor a kernel.

    Examples
    --------
    >>> from pymc_logz.kernels import as_kernel
    >>> as_kernel("slice")
    Slice(width=4.0, n_expand=1, n_shrink=4, scale=None, dense=None)
    """
    chosen: Any = Hamiltonian() if kernel is None else kernel
    if isinstance(kernel, str):
        chosen = KERNELS.get(kernel, kernel)
    check_kernel(chosen)
    return chosen


def check_kernel(kernel: Any) -> None:
    """Raise a TypeError for what does not follow `Kernel`, with what it lacks.

    Parameters
    ----------
    kernel
        What a user passed.

    Raises
    ------
    TypeError
        If it is no kernel, with the members that it lacks.

    Examples
    --------
    >>> from pymc_logz.kernels import RandomWalk, check_kernel
    >>> check_kernel(RandomWalk())
    """
    hint = ""
    if isinstance(kernel, type):
        hint = f"; this is a class: write {kernel.__name__}() to make a kernel"
    elif not isinstance(kernel, str):
        missing = [
            name if arguments is None else f"{name}({', '.join(arguments)})"
            for name, arguments in MEMBERS.items()
            if _lacks(kernel, name, arguments)
        ]
        if not missing:
            return
        hint = f"; as a kernel of your own it lacks {', '.join(missing)}"
    raise TypeError(
        f"kernel={kernel!r} is not a kernel. Use a name (one of {list(KERNELS)}), a kernel with "
        "settings, such as pymc_logz.kernels.Slice(), or an object of your own class that follows "
        f"pymc_logz.kernels.Kernel{hint}"
    )


def _lacks(kernel: Any, name: str, arguments: list[str] | None) -> bool:
    """Whether an object has not this member, or not as a method of these arguments."""
    if arguments is None or not hasattr(kernel, name):
        return not hasattr(kernel, name)
    method = getattr(kernel, name)
    try:
        signature(method).bind(*arguments)
    except TypeError:
        return True
    except ValueError:  # compiled code may not tell
        return not callable(method)
    return False


def kernel_record(kernel: Kernel) -> dict[str, Any]:
    """Class and settings of a kernel as plain values: its fields, or what it was given."""
    if is_dataclass(kernel):
        settings = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    else:
        settings = {k: v for k, v in getattr(kernel, "__dict__", {}).items() if k[0] != "_"}
    return {
        "name": type(kernel).__name__,
        **{name: value if _is_plain(value) else repr(value) for name, value in settings.items()},
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
