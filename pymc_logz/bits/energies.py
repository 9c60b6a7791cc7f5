"""What energies made of bits have in common: their path, their values by name, and exact sums."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from pymc_logz.bits.paths import BinaryPath, binary_path
from pymc_logz.models.context import ForeignModel

MAX_SUMMED = 20
"""Bits whose states are summed over one by one: a million states."""


class Bits(NamedTuple):
    """A variable made of the bits of a row."""

    sites: np.ndarray
    """Which bit of the row each entry is, of the shape of the variable."""
    values: tuple[int, int] = (0, 1)
    """What zero and one stand for."""


@dataclass(frozen=True, eq=False)
class BinaryEnergy(ForeignModel):
    """An unnormalised density of bits that interact in pairs, and where annealing starts from.

    `pymc_logz.sample_hais` and `pymc_logz.sample_tempered` take it as ``model``, and move it by
    `pymc_logz.kernels.BlockGibbs`.

    Parameters
    ----------
    name : str
        Short name for tables and test ids.
    path : BinaryPath
        From independent bits, which have log Z = 0, to the density.
    variables : dict
        Which bits make up which variable.
    log_z : float
        Natural log of the normalising constant (nats), a sum over all states; NaN where there are
        too many of them.
    source : str
        Where the model, or the formula for log Z, comes from.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> torus = energies.ising_torus((4, 4), coupling=0.3)
    >>> torus.name, round(torus.log_z, 4), list(torus.variables)
    ('ising_torus', 12.7855, ['spin'])
    >>> torus.sample(np.random.default_rng(1), 3)["spin"].shape
    (3, 4, 4)
    """

    name: str
    path: BinaryPath = field(repr=False)
    variables: Mapping[str, Bits] = field(repr=False)
    log_z: float = np.nan
    source: str = field(default="", repr=False)

    @property
    def runs(self) -> Any:
        """How it is sampled; these modules load when it is."""
        return import_module("pymc_logz.bits.sampling")

    @property
    def n_sites(self) -> int:
        """d, the number of bits."""
        return self.path.n_dims

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of its variables by name."""
        return {name: bits.sites.shape for name, bits in self.variables.items()}

    @cached_property
    def summed(self) -> np.ndarray:
        """Whether an exact sum goes through a bit: all do, or the smaller of two blocks, (d,)."""
        first, *others = self.path.sizes
        is_first = np.arange(self.n_sites) < first
        return is_first == (first <= others[0]) if len(others) == 1 else is_first | True

    @cached_property
    def couplings(self) -> np.ndarray:
        """Of any two bits, shape (d, d)."""
        given, sizes = np.asarray(self.path.values[0]), self.path.sizes
        if len(sizes) != 2:
            return given
        return np.block([[np.zeros((sizes[0],) * 2), given], [given.T, np.zeros((sizes[1],) * 2)]])

    def named(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Values by name, shape (n, ...), of rows of bits (n, d)."""
        found = {}
        for name, (sites, (low, high)) in self.variables.items():
            found[name] = np.where(rows[..., sites] > 0.5, high, low).astype(np.int8)
        return found

    def rows(self, values: Mapping[str, Any]) -> np.ndarray:
        """Rows of bits (n, d) of values by name, shape (n, ...).

        Raises
        ------
        ValueError
            If a variable is missing, or has other values or another shape.
        """
        parts = {}
        for name, (sites, allowed) in self.variables.items():
            if name not in values:
                raise ValueError(f"{name!r} is missing; give all of {list(self.variables)}")
            given = np.asarray(values[name])
            if given.shape[1:] != sites.shape or not np.isin(given, allowed).all():
                raise ValueError(
                    f"{name!r} has shape {given.shape} and values from {given.min(initial=0)} to "
                    f"{given.max(initial=0)}; it must have shape (n, *{sites.shape}) and values "
                    f"among {allowed}"
                )
            parts[name] = given == allowed[1]
        rows = np.zeros((len(next(iter(parts.values()))), self.n_sites))
        for name, part in parts.items():
            rows[:, self.variables[name].sites.ravel()] = part.reshape(len(rows), -1)
        return rows

    def log_density(self, values: Mapping[str, Any]) -> np.ndarray:
        """Log of the unnormalised density of values by name, shape (n,)."""
        _, bias, _, constant = self.path.values
        rows = self.rows(values)
        return np.asarray(rows @ bias + ((rows @ self.couplings) * rows).sum(axis=1) / 2 + constant)

    def log_z_at(self, betas: Any) -> np.ndarray:
        """Exact log Z at inverse temperatures (K,), in nats, shape (K,).

        Raises
        ------
        ValueError
            If more than 20 bits are to be summed over.
        """
        return np.array([logsumexp(self._log_masses(beta)) for beta in np.atleast_1d(betas)])

    def sample(self, rng: np.random.Generator, n: int, beta: float = 1.0) -> dict[str, np.ndarray]:
        """Independent exact draws at an inverse temperature, by name; it goes through all states.

        Raises
        ------
        ValueError
            If more than 20 bits are to be summed over.
        """
        return self.named(self.sample_rows(rng, beta, n))

    def sample_rows(self, rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
        """As `sample`, rows of bits (n, d)."""
        log_mass = self._log_masses(beta)
        mass = np.exp(log_mass - logsumexp(log_mass))
        rows, chosen = np.empty((n, self.n_sites)), rng.choice(mass.size, n, p=mass / mass.sum())
        rows[:, self.summed] = states(self.summed.sum(), chosen)
        _, odds = self._summed_over(rows[:, self.summed], beta)
        rows[:, ~self.summed] = rng.random(odds.shape) < expit(odds)
        return rows

    def _log_masses(self, beta: float) -> np.ndarray:
        """Log mass of each state of the bits that are summed over, shape (2**m,)."""
        if (m := int(self.summed.sum())) > MAX_SUMMED:
            raise ValueError(
                f"{self.name} has {m} bits whose states would have to be summed over, "
                f"and {MAX_SUMMED} are the most; use sample_tempered(model=...) for log Z"
            )
        parts = np.split(np.arange(2**m), max(1, 2**m // 2**14))
        return np.concatenate([self._summed_over(states(m, part), beta)[0] for part in parts])

    def _summed_over(self, chosen: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """Log mass of states of bits that are gone through, and log odds of all others, if any."""
        (_, bias, base, constant), summed = self.path.values, self.summed
        linear, field = (1 - beta) * base + beta * bias, chosen @ (beta * self.couplings[summed])
        odds = (linear + field)[:, ~summed]
        own = (chosen * (linear + field / 2)[:, summed]).sum(axis=1)
        scale = beta * constant - (1 - beta) * np.logaddexp(0, base).sum()
        return own + np.logaddexp(0, odds).sum(axis=1) + scale, odds


@dataclass(frozen=True, eq=False)
class BernoulliRBM(BinaryEnergy):
    """A restricted Boltzmann machine, as of `bernoulli_rbm`, with what learning one needs.

    Parameters
    ----------
    name, path, variables, log_z, source
        As of `BinaryEnergy`.

    Examples
    --------
    The log likelihood of data, and the machine after a step of learning:

    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> rbm = energies.bernoulli_rbm(np.zeros((3, 2)), np.zeros(3), np.zeros(2))
    >>> (rbm.log_visible(np.array([[0, 1, 1]])) - rbm.log_z).round(4)  # three fair coins
    array([-2.0794])
    >>> moved = rbm.at(rbm.weights + 0.1, rbm.visible_bias, rbm.hidden_bias)
    >>> moved.log_z_at(1.0).round(4)
    array([3.6276])
    """

    summable = ("hidden",)

    @property
    def weights(self) -> np.ndarray:
        """W, shape (M, J)."""
        return np.asarray(self.path.values[0])

    @property
    def visible_bias(self) -> np.ndarray:
        """Shape (M,)."""
        return np.asarray(self.path.values[1])[: len(self.weights)]

    @property
    def hidden_bias(self) -> np.ndarray:
        """Shape (J,)."""
        return np.asarray(self.path.values[1])[len(self.weights) :]

    @property
    def base_bias(self) -> np.ndarray:
        """Log odds of the visible units at beta = 0, shape (M,)."""
        return np.asarray(self.path.values[2])[: len(self.weights)]

    def log_density(self, values: Mapping[str, Any]) -> np.ndarray:
        """As `BinaryEnergy.log_density`; hidden units are summed out if they are not given."""
        if "hidden" in values:
            return super().log_density(values)
        shape = np.shape(values["visible"])[0], self.hidden_bias.size
        rows = self.rows({**values, "hidden": np.zeros(shape)})
        return self.log_visible(rows[:, : len(self.weights)])

    def log_visible(self, visible: Any) -> np.ndarray:
        """Log of the unnormalised density of visible units (n, M), hidden ones summed out, (n,).

        Less log Z it is the log likelihood of each row.
        """
        visible = np.asarray(visible, dtype=float)
        odds = self.hidden_bias + visible @ self.weights
        return np.asarray(visible @ self.visible_bias + np.logaddexp(0, odds).sum(axis=1))

    def at(self, weights: Any, visible_bias: Any, hidden_bias: Any) -> "BernoulliRBM":
        """The machine with other parameters of the same shapes, for which nothing is compiled.

        Its ``log_z`` is NaN, as it is not summed anew: see `log_z_at`.
        """
        _, bias, base, constant = self.path.values
        bias = np.concatenate([visible_bias, hidden_bias])
        path = binary_path(self.path.sizes, weights, bias, base, constant)
        return replace(self, path=path, log_z=np.nan)


def states(n_bits: int, index: np.ndarray) -> np.ndarray:
    """The bits of integers, shape (len(index), n_bits)."""
    return ((np.asarray(index)[:, None] >> np.arange(n_bits)) & 1).astype(float)
