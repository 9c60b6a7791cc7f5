"""Machines whose moments lie between those of independent bits and of another machine."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from pymc_logz.arguments import check_whole
from pymc_logz.bits.energies import BernoulliRBM
from pymc_logz.seeds import random_generator


class _Moments(NamedTuple):
    """Means of visible and hidden units, and of their products."""

    visible: np.ndarray
    hidden: np.ndarray
    product: np.ndarray

    def towards(self, other: "_Moments", share: float) -> "_Moments":
        """As they are after a fraction of the straight way to others."""
        return _Moments(*((1 - share) * a + share * b for a, b in zip(self, other, strict=True)))


def moment_averaged(
    rbm: BernoulliRBM,
    n_machines: int = 3,
    *,
    n_updates: int = 500,
    n_chains: int = 100,
    random_seed: Any = None,
) -> list[BernoulliRBM]:
    """Machines on the way to another one, whose moments are averages of those of the two ends.

    For densities of an exponential family the geometric path averages parameters; the path of
    averaged moments often has less variance. Between bits at their base rates and a machine it has
    no closed form. So the moments of the machine are taken from persistent chains, and to a few
    averages of both machines are fitted, by persistent contrastive divergence, for
    ``sample_hais(model=rbm, reference=machines)`` to lead through: geometric from one to the next
    (moment-averaged spline). However well they fit, log Z is right.

    Parameters
    ----------
    rbm : BernoulliRBM
        The machine that the path leads to.
    n_machines : int
        Machines on the way, at even shares of it.
    n_updates : int
        Updates by which each is fitted; as many sweeps tell the moments of ``rbm``.
    n_chains : int
        Chains of each update.
    random_seed
        Seed or `numpy.random.Generator`.

    Returns
    -------
    list of BernoulliRBM
        In the order of the path, without its ends.

    Raises
    ------
    ValueError
        If a number is below one.

    References
    ----------
    Grosse, Maddison & Salakhutdinov (2013), Annealing between distributions by averaging moments,
    eqs. 8 and 9, Advances in Neural Information Processing Systems 26.

    Examples
    --------
    .. code-block:: python

        import numpy as np
        import pymc_logz as lz

        weights = np.random.default_rng(1).normal(size=(6, 4))
        rbm = lz.energies.bernoulli_rbm(weights, np.zeros(6), np.zeros(4))
        machines = lz.energies.moment_averaged(rbm, random_seed=1)
        tree = lz.sample_hais(model=rbm, reference=machines, random_seed=1)
    """
    check_whole(1, n_machines=n_machines, n_updates=n_updates, n_chains=n_chains)
    rng = random_generator(random_seed)
    start = expit(rbm.base_bias)
    base = _Moments(
        start, np.full(rbm.hidden_bias.size, 0.5), np.outer(start, 0.5 + 0 * rbm.hidden_bias)
    )
    chains = (rng.random((n_chains, start.size)) < start).astype(float)
    target = _moments_of(rbm, chains, n_updates, rng)
    machines = []
    for i in range(1, n_machines + 1):
        share = i / (n_machines + 1)
        wanted = base.towards(target, share)
        machines.append(_fitted(rbm, wanted, share, chains, n_updates, rng))
    return machines


def _moments_of(
    rbm: BernoulliRBM, visible: np.ndarray, n_sweeps: int, rng: np.random.Generator
) -> _Moments:
    """Moments of a machine, from the second half of so many sweeps."""
    kept = []
    for i in range(n_sweeps):
        now, visible = _swept(rbm.weights, rbm.visible_bias, rbm.hidden_bias, visible, rng)
        if i >= n_sweeps // 2:
            kept.append(now)
    return _Moments(*(np.mean(part, axis=0) for part in zip(*kept, strict=True)))


def _swept(
    w: np.ndarray, b: np.ndarray, c: np.ndarray, visible: np.ndarray, rng: np.random.Generator
) -> tuple[_Moments, np.ndarray]:
    """Moments of chains after a sweep, hidden units averaged, and their visible units (n, M)."""
    odds = c + visible @ w
    hidden = (rng.random(odds.shape) < expit(odds)).astype(float)
    visible = (rng.random(visible.shape) < expit(b + hidden @ w.T)).astype(float)
    mean = expit(c + visible @ w)
    product = visible.T @ mean / len(visible)
    return _Moments(visible.mean(axis=0), mean.mean(axis=0), product), visible


def _fitted(
    rbm: BernoulliRBM,
    wanted: _Moments,
    share: float,
    visible: np.ndarray,
    n_updates: int,
    rng: np.random.Generator,
) -> BernoulliRBM:
    """A machine of these moments, from the one of averaged parameters."""
    b = (1 - share) * rbm.base_bias + share * rbm.visible_bias
    w, c = share * rbm.weights, share * rbm.hidden_bias
    for i in range(n_updates):
        now, visible = _swept(w, b, c, visible, rng)
        rate = 0.5 * (1 - i / n_updates)
        b = b + rate * (wanted.visible - now.visible)
        c = c + rate * (wanted.hidden - now.hidden)
        w = w + rate * (wanted.product - now.product)
    return rbm.at(w, b, c)
