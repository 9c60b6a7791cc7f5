"""Boltzmann machines of bits: restricted, general, on a torus, and of averaged moments."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from pymc_logz.arguments import check_integer
from pymc_logz.bits.energies import MAX_SUMMED, BernoulliRBM, BinaryEnergy, Bits, states
from pymc_logz.bits.paths import BinaryPath, binary_path
from pymc_logz.models.discrete import colours
from pymc_logz.seeds import random_generator


def bernoulli_rbm(
    weights: np.ndarray,
    visible_bias: np.ndarray,
    hidden_bias: np.ndarray,
    base_bias: np.ndarray | None = None,
) -> BernoulliRBM:
    """Restricted Boltzmann machine of M visible and J hidden units, all of them bits.

    Its unnormalised density is ``f(v, h) = exp(b . v + v W h + c . h)``. Annealing starts at
    independent visible units with log odds ``base_bias`` and fair hidden ones, and leads through ::

        f(v, h)**beta * p1(v, h)**(1 - beta)

    which are restricted Boltzmann machines, too. log Z is that of f, exact where the smaller layer
    has at most 20 units, which are summed over, and NaN elsewhere.

    Parameters
    ----------
    weights
        W, shape (M, J).
    visible_bias
        b, shape (M,).
    hidden_bias
        c, shape (J,).
    base_bias
        Log odds of the visible units at beta = 0, shape (M,), as of `base_log_odds`; None is
        fair coins.

    Returns
    -------
    BernoulliRBM
        Variables ``visible``, shape (M,), and ``hidden``, shape (J,).

    Raises
    ------
    ValueError
        If shapes do not fit, or an entry is not finite.

    References
    ----------
    Smolensky (1986); the path: Salakhutdinov & Murray (2008), doi 10.1145/1390156.1390266;
    Carlson et al. (2016), section 4.2, arXiv 1603.01912.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> i, j = np.arange(1, 13), np.arange(1, 9)
    >>> w = 0.9 * np.sin(1 + np.outer(i, j))
    >>> round(energies.bernoulli_rbm(w, 0.1 * np.cos(i), 0.2 * np.sin(j)).log_z, 8)
    14.37919794
    """
    w = _finite("weights", weights, 2)
    m, j = w.shape
    b = _finite("visible_bias", visible_bias, 1, m)
    c = _finite("hidden_bias", hidden_bias, 1, j)
    base = np.zeros(m) if base_bias is None else _finite("base_bias", base_bias, 1, m)
    path = binary_path((m, j), w, np.concatenate([b, c]), np.concatenate([base, np.zeros(j)]))
    variables = {"visible": Bits(np.arange(m)), "hidden": Bits(np.arange(m, m + j))}
    source = "Smolensky (1986); Salakhutdinov and Murray (2008), doi:10.1145/1390156.1390266"
    return _with_log_z(BernoulliRBM("bernoulli_rbm", path, variables, source=source))


def base_log_odds(data: np.ndarray) -> np.ndarray:
    """Log odds of each column of bits (N, M), one half of a one and of a zero added, shape (M,).

    Parameters
    ----------
    data
        Rows of bits.

    Returns
    -------
    numpy.ndarray
        ``base_bias`` of `bernoulli_rbm`.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> energies.base_log_odds(np.array([[0, 1], [1, 1]])).round(3)
    array([0.   , 1.609])
    """
    data = np.asarray(data, dtype=float)
    ones = data.sum(axis=0) + 0.5
    return np.asarray(np.log(ones) - np.log(len(data) + 1 - ones))


def boltzmann_machine(
    couplings: np.ndarray, biases: np.ndarray, base_bias: np.ndarray | None = None
) -> BinaryEnergy:
    """Boltzmann machine of d bits, any two of which may interact.

    Its unnormalised density is ``f(x) = exp(b . x + sum over i < j of A_ij x_i x_j)``. Sites are
    put into blocks that do not interact within, one after the other (greedy colouring), which are
    drawn together: two for a graph like a checkerboard, d where all sites interact.

    Parameters
    ----------
    couplings
        A, symmetric with a diagonal of zeros, shape (d, d).
    biases
        b, shape (d,).
    base_bias
        Log odds of the sites at beta = 0, shape (d,); None is fair coins.

    Returns
    -------
    BinaryEnergy
        Variable ``x``, shape (d,). log Z is exact for at most 20 sites (two blocks: 20 in the
        smaller one), NaN elsewhere.

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is not finite, or the couplings are not symmetric.

    References
    ----------
    Ackley, Hinton & Sejnowski (1985), doi 10.1207/s15516709cog0901_7.

    Examples
    --------
    Two sites that like to be one together:

    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> pair = energies.boltzmann_machine(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2))
    >>> round(float(np.exp(pair.log_z)), 4)  # 3 + e
    5.7183
    """
    a = _finite("couplings", couplings, 2)
    d = len(a)
    if a.shape != (d, d) or not np.array_equal(a, a.T) or np.any(np.diag(a)):
        raise ValueError(
            f"couplings of shape {a.shape} must be symmetric, with zeros on the diagonal; what a "
            "site does by itself belongs into biases"
        )
    b = _finite("biases", biases, 1, d)
    base = np.zeros(d) if base_bias is None else _finite("base_bias", base_bias, 1, d)
    path, place = _coloured(a, b, base)
    return _with_log_z(BinaryEnergy("boltzmann_machine", path, {"x": Bits(place)}))


def ising_torus(
    shape: tuple[int, int], coupling: float, external_field: float = 0.0
) -> BinaryEnergy:
    """Ising model of spins s = -1, 1 on a torus.

    Its unnormalised density is ``exp(J sum over neighbours s_i s_j + h sum over i s_i)``; every
    site has four neighbours. If both sides are even, the two colours of a checkerboard are drawn by
    turns. Annealing starts at fair coins. log Z is the trace of a power of the transfer matrix
    between rows if the shorter side has at most 10 sites, NaN elsewhere.

    Parameters
    ----------
    shape
        Rows and columns, at least 3 each.
    coupling
        J.
    external_field
        h.

    Returns
    -------
    BinaryEnergy
        Variable ``spin``, of this shape.

    Raises
    ------
    ValueError
        If a side is shorter than 3.

    References
    ----------
    Kramers & Wannier (1941), doi 10.1103/PhysRev.60.252, for the transfer matrix.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.ising_torus((6, 6), coupling=0.0).log_z / 36, 6)  # log 2
    0.693147
    """
    n_rows, n_columns = shape
    if min(shape) < 3:
        raise ValueError(f"shape={shape!r} must be at least (3, 3), so that neighbours differ")
    d, j, h = n_rows * n_columns, float(coupling), float(external_field)
    site = np.arange(d).reshape(n_rows, n_columns)
    couplings = np.zeros((d, d))
    for axis in (0, 1):
        neighbour = np.roll(site, -1, axis=axis)
        couplings[site, neighbour] = couplings[neighbour, site] = 4 * j
    bias, constant = np.full(d, 2 * h - 8 * j), 2 * d * j - d * h
    path, place = _coloured(couplings, bias, np.zeros(d), constant)
    spins = {"spin": Bits(place.reshape(n_rows, n_columns), (-1, 1))}
    # a transfer matrix of 2**10 rows is the largest that is made
    exact = torus_log_z(shape, j, h) if min(shape) <= 10 else np.nan
    return BinaryEnergy("ising_torus", path, spins, exact, "Kramers and Wannier (1941)")


def torus_log_z(shape: tuple[int, int], coupling: float, external_field: float) -> float:
    """Log Z of `ising_torus`, (rows, columns), by the transfer matrix within its shorter side."""
    width, length = sorted(shape)
    spins = 2.0 * states(width, np.arange(2**width)) - 1
    within = (spins * np.roll(spins, 1, axis=1)).sum(axis=1) * coupling
    within += external_field * spins.sum(axis=1)
    log_transfer = coupling * spins @ spins.T + (within[:, None] + within) / 2
    values = np.linalg.eigvalsh(np.exp(log_transfer - log_transfer.max()))
    # powers of negative eigenvalues have signs of their own
    log_powers = length * np.log(np.abs(values) + np.finfo(float).tiny)
    total = logsumexp(log_powers, b=np.sign(values) ** length)
    return float(total + length * log_transfer.max())


def _with_log_z[Energy: BinaryEnergy](energy: Energy) -> Energy:
    """The same with its log Z, where at most 20 bits are to be summed over."""
    if energy.summed.sum() > MAX_SUMMED:
        return energy
    return replace(energy, log_z=float(energy.log_z_at(1.0)[0]))


def _coloured(
    couplings: np.ndarray, biases: np.ndarray, base: np.ndarray, constant: float = 0.0
) -> tuple[BinaryPath, np.ndarray]:
    """Path of sites in the order of their blocks, and the place of each site there."""
    colour = colours([np.flatnonzero(row).tolist() for row in couplings])
    order = np.argsort(colour, kind="stable")
    sizes = tuple(np.bincount(colour).tolist())
    in_order = couplings[np.ix_(order, order)]
    if len(sizes) == 2:
        in_order = in_order[: sizes[0], sizes[0] :]
    path = binary_path(sizes, in_order, biases[order], base[order], constant)
    return path, np.argsort(order)


def _finite(name: str, values: Any, n_axes: int, length: int | None = None) -> np.ndarray:
    """An array of finite numbers with so many axes, the first of them of a length."""
    array = np.asarray(values, dtype=float)
    wanted = f"{n_axes} axes" if length is None else f"shape ({length},)"
    if array.ndim != n_axes or not array.size or (length is not None and len(array) != length):
        raise ValueError(f"{name} has shape {array.shape}, and must have {wanted}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} has entries that are not finite")
    return array


type Moments = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Means of visible and hidden units, and of their products."""


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
    check_integer(1, n_machines=n_machines, n_updates=n_updates, n_chains=n_chains)
    rng = random_generator(random_seed)
    start, half = expit(rbm.base_bias), np.full(rbm.hidden_bias.size, 0.5)
    base = (start, half, np.outer(start, half))
    chains = (rng.random((n_chains, start.size)) < start).astype(float)
    kept, visible = [], chains
    for i in range(n_updates):
        now, visible = _swept(rbm.weights, rbm.visible_bias, rbm.hidden_bias, visible, rng)
        if i >= n_updates // 2:
            kept.append(now)
    target = [np.mean(part, axis=0) for part in zip(*kept, strict=True)]
    machines = []
    for i in range(1, n_machines + 1):
        share = i / (n_machines + 1)
        wanted = [(1 - share) * a + share * b for a, b in zip(base, target, strict=True)]
        # from the machine of averaged parameters
        b = (1 - share) * rbm.base_bias + share * rbm.visible_bias
        c, w, visible = share * rbm.hidden_bias, share * rbm.weights, chains
        for update in range(n_updates):
            now, visible = _swept(w, b, c, visible, rng)
            rate = 0.5 * (1 - update / n_updates)
            pairs = zip((b, c, w), wanted, now, strict=True)
            b, c, w = (old + rate * (aim - found) for old, aim, found in pairs)
        machines.append(rbm.at(w, b, c))
    return machines


def _swept(
    w: np.ndarray, b: np.ndarray, c: np.ndarray, visible: np.ndarray, rng: np.random.Generator
) -> tuple[Moments, np.ndarray]:
    """Moments of chains after a sweep, hidden units averaged, and their visible units (n, M)."""
    odds = c + visible @ w
    hidden = (rng.random(odds.shape) < expit(odds)).astype(float)
    visible = (rng.random(visible.shape) < expit(b + hidden @ w.T)).astype(float)
    mean = expit(c + visible @ w)
    product = visible.T @ mean / len(visible)
    return (visible.mean(axis=0), mean.mean(axis=0), product), visible
