"""Draws that are not of the posterior: never a log Z with status ok."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr
from arviz_base import dict_to_dataset
from scipy.stats import gamma, norm
from support import pymc_models as models
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz.errors import STATUS_SENTENCES, USABLE_STATUSES
from pymc_logz.estimators import LogZEstimate
from pymc_logz.trees.doubts import STATUSES, Doubt, disagreements, second_opinions

N_DATA = 20
SPREAD = 1 / np.sqrt(N_DATA + 1)
pytestmark = pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")

WRONG: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "of the prior": lambda z: z / SPREAD,
    "of other data": lambda z: z + 1.4,
    "too wide": lambda z: 1.5 * z,
    "somewhat wide": lambda z: 1.2 * z,
    "too narrow": lambda z: 0.3 * z,
    "somewhat narrow": lambda z: 0.8 * z,
    "cut in half": lambda z: np.concatenate([np.abs(z[..., :1]), z[..., 1:]], axis=-1),
    "at the mode": lambda z: 1e-6 * z,
}
DIMENSIONS = (1, 10, 50)


def table(n_dims: int) -> tuple[pm.Model, np.ndarray, float]:
    """Normal means, their posterior means, and log Z."""
    data = 0.5 + make_rng("table", n_dims).normal(size=(N_DATA, n_dims))
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=n_dims)
        pm.Normal("y", x, 1, observed=data)
    total, square = data.sum(axis=0), (data**2).sum(axis=0)
    quadratic = square - total**2 / (N_DATA + 1)
    constant = -0.5 * n_dims * (N_DATA * np.log(2 * np.pi) + np.log(N_DATA + 1))
    return model, total / (N_DATA + 1), float(constant - 0.5 * quadratic.sum())


def bridged(
    model: pm.Model, centre: np.ndarray, z: np.ndarray
) -> tuple[float, float, str, xr.DataTree]:
    """A bridge from draws that are standardised so."""
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset({"x": centre + SPREAD * z})})
    found = lz.bridge_sampling(tree, model, random_seed=1, progressbar=False)
    return *models.log_z_of(found), found


@pytest.mark.parametrize("n_dims", DIMENSIONS)
def test_wrong_draws_are_never_ok(n_dims: int) -> None:
    """Catches 28 to 20,000 errors with status ok, in any dimension; right draws are ok."""
    model, centre, exact = table(n_dims)
    z = make_rng("standard", n_dims).normal(size=(4, 1000, n_dims))
    log_z, mcse, status, _ = bridged(model, centre, z)
    assert status == "ok"
    assert abs(log_z - exact) < 4 * mcse
    for name, change in WRONG.items():
        log_z, mcse, status, found = bridged(model, centre, change(z))
        assert abs(log_z - exact) > 4 * mcse, name
        assert status in ("wrong_draws", "disagrees"), name
        assert "errors" in found["evidence"].attrs["doubts"]


def test_right_draws_are_ok() -> None:
    """Would catch an accusation without grounds: correlated chains of a skewed posterior."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        pm.Poisson("y", rate, observed=[1, 3, 0])
    rng = make_rng("skewed chains")
    for _ in range(10):
        noise = rng.normal(size=(4, 1000))
        for i in range(1, 1000):
            noise[:, i] = 0.7 * noise[:, i - 1] + np.sqrt(1 - 0.7**2) * noise[:, i]
        draws = gamma(6, scale=1 / 4).ppf(norm.cdf(noise))
        tree = xr.DataTree.from_dict({"posterior": dict_to_dataset({"rate": draws})})
        found = lz.bridge_sampling(tree, model, random_seed=2, progressbar=False)
        assert models.log_z_of(found)[2] == "ok"


def test_a_fit_is_never_a_posterior() -> None:
    """Catches pm.fit(...).sample() with status ok: even a right one says what it is."""
    model, *_ = table(2)
    with model, pytensor.config.change_flags(mode="FAST_COMPILE"):  # PyMC's own compilations
        fitted = pm.fit(500, progressbar=False, random_seed=1).sample(400, random_seed=1)
    with pytest.warns(lz.EvidenceWarning, match="come from an approximate fit"):
        found = lz.bridge_sampling(fitted, model, random_seed=1, progressbar=False)
    assert models.log_z_of(found)[2] == "approximate_draws"


def test_grave_doubts_come_first() -> None:
    """Would catch chains that disagree under a milder status, and a doubt that is dropped."""
    model, centre, _ = table(1)
    z = make_rng("apart").normal(size=(4, 400, 1)) + np.arange(4)[:, None, None] / 2
    *_, status, found = bridged(model, centre, z)
    assert status in ("wrong_draws", "chains_disagree")
    assert "R-hat" in found["evidence"].attrs["doubts"]
    tree = xr.DataTree.from_dict(
        {
            "posterior": dict_to_dataset({"x": centre + SPREAD * (z - z.mean(axis=1)[:, None])}),
            "sample_stats": dict_to_dataset({"diverging": np.arange(1600).reshape(4, 400) < 20}),
        }
    )
    found = lz.bridge_sampling(tree, model, random_seed=1, progressbar=False)
    assert models.log_z_of(found)[2] == "divergences"
    assert found["evidence"].attrs["doubts"] == "20 of 1600 draws diverged"


def test_statuses_of_doubts_have_a_number() -> None:
    """Would catch a doubt that replaces the number that it is about by a status without one."""
    assert set(STATUSES) <= USABLE_STATUSES <= set(STATUS_SENTENCES)


def test_what_rests_on_doubtful_draws_is_doubtful() -> None:
    """Catches a curve of Bayes factors with status ok beside a log Z that is not."""
    with pm.Model() as model:
        width = pm.Data("width", 1.0)
        x = pm.Normal("x", 0, width)
        pm.Normal("y", x, 1, observed=np.ones(20))
    z = make_rng("narrow").normal(size=(4, 500))
    draws = dict_to_dataset({"x": 20 / 21 + 0.3 * SPREAD * z})
    found = lz.bridge_sampling(
        xr.DataTree.from_dict({"posterior": draws}), model, random_seed=1, progressbar=False
    )
    assert models.log_z_of(found)[2] == "wrong_draws"
    curve = lz.evidence_sensitivity(found, model, {"width": [0.9, 1.1]}, progressbar=False)
    assert list(curve["sensitivity"]["status"].values) == ["wrong_draws"] * 2
    assert "errors" in curve["sensitivity"].attrs["doubts"]


def test_the_second_opinion_hears_of_the_first() -> None:
    """Catches importance weights that miss a spike, with the status ok beside a bridge that has it.

    What speaks against the draws speaks against what is fitted to them: Neal's funnel by NUTS.
    """
    bridge = LogZEstimate("bridge", -6.9, 0.01, 900.0, np.nan, "ok")
    near = LogZEstimate("importance", -6.92, 0.01, 900.0, 0.2, "ok")
    far = replace(near, log_z=-7.4)
    statuses = [one.status for one in second_opinions(bridge, [near, far], [])]
    assert statuses == ["ok", "disagrees"]
    missed = second_opinions(bridge, [near], [Doubt("missed_mode", "a mode")])
    assert missed[0].status == "missed_mode"
    assert (
        second_opinions(bridge, [near], [Doubt("divergences", "some")])[0].status == "divergences"
    )
    assert second_opinions(bridge, [near], [Doubt("disagrees", "by 5")])[0].status == "ok"


@pytest.mark.parametrize(("above", "accuses"), [(-0.5, False), (-8.0, False), (8.0, True)])
def test_an_estimate_that_lacks_mass_accuses_none_that_is_higher(
    above: float, accuses: bool
) -> None:
    """Catches centred eight schools told to disagree with what misses their neck (11 of 60)."""
    first = LogZEstimate("hais", -31.3, 0.03, 500.0, 0.4, "ok")
    other = LogZEstimate("importance", -31.3 + above, 0.06, 250.0, 0.4, "uncovered")
    assert bool(disagreements(first, [other])) == accuses
    assert bool(disagreements(first, [replace(other, status="ok")]))


def test_copies_of_chains_are_refused() -> None:
    """Would catch a short run that is ok once its draws are there several times."""
    model, centre, _ = table(1)
    z = make_rng("copies").normal(size=(2, 150, 1))
    bridged(model, centre, z)
    with pytest.raises(ValueError, match="2 of 4 chains have the same draws as another one"):
        bridged(model, centre, np.concatenate([z, z]))
