"""RTS while a run goes on: sums of the levels' probabilities, and no draws."""

from dataclasses import dataclass, field

import numpy as np

from pymc_logz.arguments import check_betas
from pymc_logz.estimators.curve import LogZCurve
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.tempering import effective_size, level_law_curve, rts_bias


@dataclass(eq=False)
class RunningRTS:
    """`rts` of a run whose draws are not kept: of each walker only the sums of q(k | x) are.

    Memory is K numbers for each walker, however long the run; in `TemperedDraws` it is two for
    each draw. The error is that between walkers, which holds however slowly each of them travels,
    and is a rough guess for fewer than 30 of them (``"short_run"``).

    Parameters
    ----------
    betas
        Inverse temperatures, from 0 to 1, shape (K,).
    log_prior
        Log of the prior weight of each level, up to a constant, shape (K,).
    log_z_hat
        Guess of log Z by which levels are drawn, shape (K,); the same all along.

    Raises
    ------
    ValueError
        If shapes do not fit, or a value is out of range.

    References
    ----------
    Carlson, Stinson, Pakman & Paninski (2016), Algorithm 1, arXiv 1603.01912.

    Examples
    --------
    Walkers of an exponential law, drawn exactly, with log Z = -log(1 + beta):

    >>> import numpy as np
    >>> from pymc_logz.estimators import RunningRTS
    >>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
    >>> running = RunningRTS(betas, np.zeros(5), -np.log1p(betas))
    >>> for _ in range(200):
    ...     level = rng.integers(5, size=(40, 1))
    ...     running.add(-rng.exponential(1 / (1 + betas[level])))
    >>> print(running.curve.estimate)  # log Z = -0.693
    log Z = -0.691 ± 0.008 (rts, ok)
    """

    betas: np.ndarray
    log_prior: np.ndarray
    log_z_hat: np.ndarray
    n_draws: int = field(default=0, init=False)
    """Draws of each walker so far."""
    sums: np.ndarray | None = field(default=None, init=False)
    """Sums of q(k | x) of each walker, shape (W, K)."""
    squares: np.ndarray = field(default_factory=lambda: np.zeros(2), init=False)
    """Sums of the squares of q at the two ends, over all walkers."""

    def __post_init__(self) -> None:
        self.betas = check_betas(self.betas)

    def add(self, log_ratio: np.ndarray) -> None:
        """Count draws of all walkers.

        Parameters
        ----------
        log_ratio
            Shape (W, n), -inf outside the support of the target.

        Raises
        ------
        ValueError
            If there are other walkers than before, or an entry is NaN.
        """
        log_ratio = np.asarray(log_ratio, dtype=float)
        draws = self._draws(log_ratio)
        q = draws.level_given(draws.log_ratio.ravel(), draws.segment.ravel())
        new = q.reshape(*log_ratio.shape, -1).sum(axis=1)
        if self.sums is not None and self.sums.shape != new.shape:
            raise ValueError(
                f"log_ratio has shape {log_ratio.shape}, but there were {len(self.sums)} walkers "
                "before; give all walkers each time"
            )
        self.sums = new if self.sums is None else self.sums + new
        self.squares = self.squares + (q[:, [0, -1]] ** 2).sum(axis=0)
        self.n_draws += log_ratio.shape[1]

    @property
    def level_share(self) -> np.ndarray:
        """Mean of q(k | x) over all draws so far: c_k of the source, shape (K,).

        Raises
        ------
        ValueError
            If there are no draws yet.
        """
        return self._sums().sum(axis=0) / (len(self._sums()) * self.n_draws)

    @property
    def curve(self) -> LogZCurve:
        """Log Z at each level, as of `rts`, with errors from the differences between walkers.

        Raises
        ------
        ValueError
            If there are no draws yet.
        """
        sums = self._sums()[:, None, :]
        total = sums.sum(axis=(0, 1))
        # one draw a walker stands for all of them, which are in the sums
        stand_in = self._draws(np.zeros((len(sums), 1)))
        details = {"level_share": self.level_share, "bias": rts_bias(sums)}
        details["autocorrelation_time"] = np.array(np.nan)  # which sums do not tell
        ess = effective_size(total[[0, -1]], self.squares)
        return level_law_curve("rts", stand_in, sums / self.n_draws, ess, details)

    def _sums(self) -> np.ndarray:
        if self.sums is None:
            raise ValueError("there are no draws yet; add some")
        return self.sums

    def _draws(self, log_ratio: np.ndarray) -> TemperedDraws:
        level = np.zeros(log_ratio.shape, dtype=int)
        return TemperedDraws(level, log_ratio, self.betas, self.log_prior, self.log_z_hat)
