"""The model that a user means, and messages for arguments that changed places."""

from typing import Any

import pymc as pm


def model_from(model: Any, call: str) -> pm.Model:
    """The model given, or that on the context stack.

    Parameters
    ----------
    model
        What was passed as ``model``.
    call
        How the call is meant to be written, for the message.

    Raises
    ------
    TypeError
        If there is no model, or it is something else.
    """
    if model is None:
        model = pm.Model.get_context(error_if_none=False)
        if model is None:
            raise TypeError(f"model is missing: write {call}, or call it inside `with model:`")
    if not isinstance(model, pm.Model):
        raise TypeError(f"model is a {_kind(model)}, but must be a pm.Model: write {call}")
    return model


def check_no_model(call: str, **given: Any) -> None:
    """Raise a TypeError for an argument that is a model in the place of something else."""
    for name, value in given.items():
        if isinstance(value, pm.Model):
            raise TypeError(f"{name} is a pm.Model: write {call}")


def _kind(value: Any) -> str:
    return type(value).__name__
