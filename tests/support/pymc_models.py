"""Small PyMC models used by several tests.

Each function makes a fresh model, but for `normal_normal`: what is compiled for it is shared by
all tests of a process.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from arviz_base import dict_to_dataset

import pymc_logz as lz

if TYPE_CHECKING:
    from pymc_logz.energies import Energy

RNG = np.random.default_rng(20)
X = RNG.normal(size=8)
Y = 0.5 + X + RNG.normal(size=8)
GROUP = np.array([0, 1, 2, 0, 1, 2, 0, 1])
PAIRS = RNG.normal(size=(6, 2))
ordered = pm.distributions.transforms.ordered
interval = pm.distributions.transforms.Interval


@cache
def normal_normal() -> pm.Model:
    """One normal mean with one observation: always the same model, so change a copy only."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=0.7)
    return model


def normal_with_offset(offset: float) -> pm.Model:
    """A copy of `normal_normal` with a constant as a potential."""
    with normal_normal().copy() as model:
        pm.Potential("offset", pt.as_tensor(np.float64(offset)))
    return model


def regression() -> pm.Model:
    """Data containers, coordinates and a deterministic with dims."""
    with pm.Model(coords={"obs": [f"o{i}" for i in range(8)]}) as model:
        x = pm.Data("x", X, dims="obs")
        intercept = pm.Normal("intercept", 0, 1)
        slope = pm.Normal("slope", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        mu = pm.Deterministic("mu", intercept + slope * x, dims="obs")
        pm.Normal("y", mu, sigma, observed=Y, dims="obs")
    return model


def hierarchical() -> pm.Model:
    """Group effects on coordinates, picked by integer indexing of data."""
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        index = pm.Data("index", GROUP)
        tau = pm.HalfNormal("tau", 1)
        effect = pm.Normal("effect", 0, tau, dims="group")
        pm.Normal("y", effect[index], 1, observed=Y)
    return model


def dependent_bounds() -> pm.Model:
    """Bounds of one variable that are another one."""
    with pm.Model() as model:
        upper = pm.HalfNormal("upper", 2)
        share = pm.Uniform("share", 0, upper)
        pm.Normal("y", share, 1, observed=Y[:3])
    return model


def ordered_mixture() -> pm.Model:
    """Dirichlet weights, and means with an extra ordered transform."""
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        means = pm.Normal("means", 0, 2, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        pm.NormalMixture("y", weights, means, 1.0, observed=Y)
    return model


def lkj() -> pm.Model:
    """Cholesky factor of a covariance, its deterministics, and a multivariate likelihood."""
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        pm.MvNormal("y", np.zeros(2), chol=chol, observed=PAIRS)
    return model


def random_walk() -> pm.Model:
    """Time series prior of PyMC."""
    with pm.Model() as model:
        init = pm.Normal.dist(0, 1)
        level = pm.GaussianRandomWalk("level", mu=0, sigma=0.5, init_dist=init, steps=7)
        pm.Normal("y", level, 1, observed=Y)
    return model


def matrix() -> pm.Model:
    """A matrix of parameters next to one of length one."""
    with pm.Model() as model:
        weight = pm.Normal("weight", 0, 1, shape=(2, 3))
        scale = pm.HalfNormal("scale", 1, shape=1)
        pm.Normal("y", weight.sum(axis=1), scale, observed=[0.3, -0.4])
    return model


def missing_data() -> pm.Model:
    """Two of the observations are missing, and imputed by PyMC."""
    observed = np.ma.masked_array(Y, mask=[True, False, False, True, False, False, False, False])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
            pm.Normal("y", mu, 1, observed=observed)
    return model


def scan_likelihood() -> pm.Model:
    """Likelihood of a recursion written with scan: exponential decay."""
    with pm.Model() as model:
        rate = pm.Beta("rate", 2, 2)
        path = pytensor.scan(
            lambda state, r: state * r,
            outputs_info=[pt.as_tensor(np.float64(3.0))],
            non_sequences=[rate],
            n_steps=4,
            return_updates=False,
        )
        pm.Normal("y", path, 0.5, observed=[1.6, 0.7, 0.5, 0.1])
    return model


def gaussian_process() -> pm.Model:
    """Covariance function whose Cholesky factor depends on the parameters."""
    with pm.Model() as model:
        length = pm.Gamma("length", 3, 2)
        covariance = pm.gp.cov.ExpQuad(1, ls=length)(X[:, None]) + 0.5 * np.eye(8)
        pm.MvNormal("y", np.zeros(8), cov=covariance, observed=Y)
    return model


def zero_sum() -> pm.Model:
    """Group effects that sum to zero."""
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        effect = pm.ZeroSumNormal("effect", sigma=1, dims="group")
        mean = pm.Normal("mean", 0, 1)
        pm.Normal("y", mean + effect[GROUP], 1, observed=Y)
    return model


def with_potential() -> pm.Model:
    """A potential that is no constant, next to a likelihood."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1, shape=2)
        pm.Potential("pull", -((mu[0] - mu[1]) ** 2))
        pm.Normal("y", mu, 1, observed=[0.3, 1.0])
    return model


def awkward_start() -> pm.Model:
    """Initial values far out in the tail of the prior."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1, initval=9.0)
        sigma = pm.HalfNormal("sigma", 1, initval=7.0)
        pm.Normal("y", mu, sigma, observed=Y[:2])
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    function.__name__: function
    for function in (
        normal_normal,
        regression,
        hierarchical,
        dependent_bounds,
        ordered_mixture,
        lkj,
        random_walk,
        matrix,
        missing_data,
        scan_likelihood,
        gaussian_process,
        zero_sum,
        with_potential,
        awkward_start,
    )
}


def counts(n: int = 40) -> pm.Model:
    """Counts of groups whose log rates have a common mean and spread."""
    y = np.random.default_rng(5).poisson(np.exp(np.random.default_rng(6).normal(1, 0.7, n)))
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        spread = pm.HalfNormal("spread", 1)
        log_rate = pm.Normal("log_rate", mean, spread, shape=n)
        pm.Poisson("y", pm.math.exp(log_rate), observed=y)
    return model


def quick(model: pm.Model, **kwargs: object) -> xr.DataTree:
    """A small run with a fixed seed and no progress bar."""
    settings = {"draws": 256, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    return lz.sample_hais(model=model, **{**settings, **kwargs})


def uncentred_hierarchy(n_groups: int = 5) -> "Energy":
    """`energies.hierarchical_normal` by its standardised effects: the same log Z.

    The centred form has no posterior mode, since its density grows without bound where tau goes to
    zero, so there is nothing that `reference="laplace"` could start from.
    """
    scales = {"mu_scale": 2.0, "tau_scale": 1.0}
    centred = lz.energies.hierarchical_normal(n_groups=n_groups, **scales)
    y = centred.model.rvs_to_values[centred.model["y"]].data
    sigma = (
        centred.model["y"]
        .owner.op.dist_params(centred.model["y"].owner)[1]
        .eval(mode="FAST_COMPILE")
    )
    with pm.Model() as model:
        mu = pm.Normal("mu", np.float64(0), np.float64(scales["mu_scale"]))
        tau = pm.HalfNormal("tau", np.float64(scales["tau_scale"]))
        effect = pm.Normal("effect", shape=n_groups)
        pm.Normal("y", mu + tau * effect, sigma, observed=y)

    def sample(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        draws = centred.sample_posterior(rng, n)
        mu, tau = draws["mu"][:, None], draws["tau"][:, None]
        return {"mu": draws["mu"], "tau": draws["tau"], "effect": (draws["theta"] - mu) / tau}

    return lz.energies.Energy("uncentred_hierarchy", model, centred.log_z, sample)


def exact_draws(
    energy: "Energy", rng: np.random.Generator, draws: int, chains: int = 1
) -> xr.DataTree:
    """Independent draws of an energy's posterior, as a tree that `pm.sample` could have made."""
    assert energy.sample_posterior is not None
    arrays = {
        name: values.reshape(chains, draws, *values.shape[1:])
        for name, values in energy.sample_posterior(rng, chains * draws).items()
    }
    return xr.DataTree.from_dict({"posterior": dict_to_dataset(arrays)})


def log_z_of(tree: xr.DataTree) -> tuple[float, float, str]:
    """Log Z, its error and its status."""
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    return float(entry["log_z"]), float(entry["mcse"]), str(entry["status"].item())


def assert_log_z(tree: xr.DataTree, exact: float, *, within: float = 0.1) -> None:
    """Log Z is trusted, and agrees with the exact value within 4 errors and `within` nats."""
    log_z, mcse, status = log_z_of(tree)
    assert status == "ok"
    assert 0 < mcse < within
    assert abs(log_z - exact) < min(4 * mcse, within), f"{log_z:.4f} ± {mcse:.4f}, not {exact:.4f}"
