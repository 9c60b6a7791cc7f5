"""What tempering is for: far modes weighed rightly, and log Z right at every temperature."""

from functools import partial

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp
from support.checks import ALPHA, CheckFailedError, assert_detects
from support.step_chains import QUIET

import pymc_logz as lz
from pymc_logz.energies import two_gaussians, two_gaussians_log_z

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:the model has potentials"),
]
N_DIMS = 20
SOUND = ["rts", "mbar", "ts", "bar_chain", "stepping_stone", "ti_corrected"]
OBSERVED = np.array([25.9, 24.1, 26.3, 23.8, 25.2, 24.6])

# --- log Z along the whole path ----------------------------------------------------------------


def check_curve(exact: np.ndarray, group: xr.Dataset) -> None:
    """Fail unless every method is right at every level, by z-scores with Bonferroni's limit."""
    error = group["log_z_curve"].to_numpy()[:, 1:] - exact[1:]
    z = error / group["mcse_curve"].to_numpy()[:, 1:]
    limit = stats.norm.isf(ALPHA / 2 / z.size)
    worst = np.unravel_index(np.nanargmax(np.abs(z)), z.shape)
    if np.any(np.isnan(z)) or np.any(np.abs(z) > limit):
        raise CheckFailedError(f"z={z[worst]:.1f} of method and level {worst}, limit {limit:.1f}")


@pytest.fixture(scope="module")
def mixture() -> xr.Dataset:
    """Group evidence of the 20-dimensional mixture by several methods, along the prior's path."""
    settings = {"draws": 4000, "chains": 2, "cores": 2, "random_seed": 5, "progressbar": False}
    settings["reference"] = "prior"  # of which the curve is known
    tree = lz.sample_tempered(model=two_gaussians(N_DIMS).model, **settings)
    return lz.evidence(tree, methods=SOUND)["evidence"].to_dataset()


@pytest.mark.slow
def test_log_z_of_far_modes_at_every_beta(mixture: xr.Dataset) -> None:
    """Catches a curve that is right at its ends only: no level hides behind another."""
    betas = mixture["beta"].to_numpy()
    exact = two_gaussians_log_z(betas, N_DIMS)
    check = partial(check_curve, group=mixture)
    check(exact)
    assert mixture["mcse_curve"].max() < 0.25
    assert set(mixture["status"].to_numpy()) <= {"ok", "short_run"}
    # a level's log Z of its neighbour, and one mode out of two, would be noticed
    assert_detects(check, np.append(exact[:1], exact[:-1]))
    assert_detects(check, exact + np.where(betas > 0.1, 1.0, 0.0))


# --- modes -------------------------------------------------------------------------------------


def squared() -> pm.Model:
    """Observations of a square: two far modes, unequal by the prior, and an unknown spread."""
    with pm.Model() as model:
        theta = pm.Normal("theta", np.float64(2), np.float64(4))
        spread = pm.HalfNormal("spread", np.float64(2))
        pm.Normal("y", theta**2, spread, observed=OBSERVED)
    return model


def exact_squared() -> tuple[float, float]:
    """Mass of the negative mode, and log Z, on a grid."""
    theta, spread = np.linspace(-7, 7, 4001), np.linspace(0.01, 10, 2001)
    log_density = stats.norm.logpdf(theta, 2, 4)[:, None] + stats.halfnorm.logpdf(spread, scale=2)
    for y in OBSERVED:
        log_density = log_density + stats.norm.logpdf(y, theta[:, None] ** 2, spread)
    area = (theta[1] - theta[0]) * (spread[1] - spread[0])
    log_z = logsumexp(log_density) + np.log(area)
    negative = logsumexp(log_density[theta < 0]) + np.log(area)
    return float(np.exp(negative - log_z)), float(log_z)


@pytest.mark.slow
# threads of JAX, alive since some test before, make fork warn
@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.filterwarnings("ignore::RuntimeWarning:pymc.step_methods.hmc")
def test_pm_sample_finds_both_modes() -> None:
    """Catches a step method that stays where it began, as the default does, or weighs wrongly."""
    model, (exact, log_z) = squared(), exact_squared()
    settings = {"draws": 3000, "chains": 4, "cores": 1, "random_seed": 6, **QUIET}
    with model:
        plain = pm.sample(nuts_sampler="pymc", **{**settings, "draws": 300, "tune": 300})
        tempered = pm.sample(step=lz.SimulatedTempering(), **settings)
    assert not np.any(plain["posterior"]["theta"] < 0), "the default found the other mode"
    negative = (tempered["posterior"]["theta"] < 0).astype(float)
    mcse = float(negative.azstats.mcse(method="mean"))
    share = float(negative.mean())
    print(f"\nnegative mode: exact {exact:.4f}, NUTS 0, tempered {share:.4f} ± {mcse:.4f}")
    assert 0 < mcse < 0.02
    assert abs(share - exact) < 3 * mcse
    assert abs(0.0 - exact) > 10 * mcse
    for methods in (None, ["rts", "mbar"]):
        entry = lz.evidence(tempered, methods=methods)["evidence"].to_dataset().isel(estimator=0)
        found, error = float(entry["log_z"]), float(entry["mcse"])
        print(f"log Z: exact {log_z:.4f}, {found:.4f} ± {error:.4f}")
        assert str(entry["status"].item()) == "ok"
        assert error < 0.05
        assert abs(found - log_z) < 4 * error
    spread = tempered["posterior"]["spread"]
    assert float(spread.azstats.rhat().item()) < 1.01
