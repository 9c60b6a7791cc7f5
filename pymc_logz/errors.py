"""Exceptions, warnings, and the fixed sentence that explains each status."""

import os
import warnings

PACKAGE = os.path.dirname(__file__) + os.sep


class ModelError(ValueError):
    """The model has no well-defined log Z, or one that this package cannot compute."""


class ImproperPriorError(ModelError):
    """A prior has no draws or does not integrate to one, so log Z is undefined."""


class DiscreteVariableError(ModelError):
    """A kernel that needs gradients met a discrete free variable."""


class PilotError(RuntimeError):
    """The pilot run found no usable path from the reference to the target."""


class EvidenceWarning(UserWarning):
    """A log Z was computed, but something about it needs the reader's attention."""


STATUS_SENTENCES = {
    "ok": "The error estimate can be trusted.",
    "low_weight_ess": (
        "Few rows carry the weight, so the error is a rough guess; "
        "use more temperatures (betas=<int>) or more draws."
    ),
    "high_khat": (
        "The largest weights have a heavy tail (Pareto k-hat above its threshold), so the error "
        "may be too small; use more temperatures (betas=<int>) or more draws."
    ),
    "degenerate": (
        "A handful of rows carries all the weight, so there is no log Z to report; "
        "use many more temperatures (betas=<int>) or check that the model can explain its data."
    ),
    "no_support": (
        "Every row ended with weight zero: no prior draw reached the support of the likelihood; "
        "check the potentials and the observed data."
    ),
    "no_overlap": (
        "The forward and the reverse rows have no weights in common, so there is no bridge between "
        "them; use more temperatures (betas=<int>)."
    ),
    "approximate_starts": (
        "The reverse rows started at resampled ends of the forward ones, moved on at beta = 1: the "
        "upper end is only as good as those starts. Pass posterior_draws= for independent ones."
    ),
    "infinite_weight": (
        "A row has infinite weight: the likelihood or a potential is unbounded, so log Z is "
        "infinite or undefined."
    ),
}
"""What each value of ``status`` means, and what to do about it."""

USABLE_STATUSES = frozenset({"ok", "low_weight_ess", "high_khat", "approximate_starts"})
"""Statuses that come with a number; under every other one ``log_z`` is NaN."""


def warn(message: str) -> None:
    """Emit an `EvidenceWarning` at the line outside this package that led to it."""
    warnings.warn(message, EvidenceWarning, skip_file_prefixes=(PACKAGE,))
