"""log Z of posteriors that exist already, against exact values; and posteriors that are refused."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_base import dict_to_dataset
from pymc.distributions.transforms import ordered
from support import pymc_models as models
from support.checks import assert_detects, check_coverage, make_rng

from pymc_logz import EvidenceWarning, ImproperPriorError, ModelError, bridge_sampling, energies
from pymc_logz.energies import Energy
from pymc_logz.estimators import LogZEstimate
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import flatten_model
from pymc_logz.posterior import bridging as module
from pymc_logz.trees.doubts import disagreements
from pymc_logz.trees.posterior import PosteriorRows, posterior_rows

pytestmark = pytest.mark.usefixtures("no_look_in_this_file")

student_location = cache(energies.student_location)
ENERGIES: dict[str, Callable[[], Energy]] = {
    "poisson_gamma": energies.poisson_gamma,
    "student_location": student_location,
    "skewed_bimodal": energies.skewed_bimodal,
    "linear_regression": energies.linear_regression,
    "radiata_pine": lambda: energies.radiata_pine("density"),
    "ridge": energies.ridge,
    "uncentred_hierarchy": models.uncentred_hierarchy,
    "gaussian_shells": energies.gaussian_shells,
    "two_gaussians": energies.two_gaussians,
}
QUICK = ("student_location", "radiata_pine")
MU = np.array([0.2, 1.1, -0.3, 0.7])
ignore_potentials = pytest.mark.filterwarnings("ignore:the model has potentials")


def bridged(energy: Energy, label: str, **kwargs: object) -> xr.DataTree:
    """A bridge from independent draws."""
    tree = models.exact_draws(energy, make_rng("bridge draws", label), 1000, 4)
    return bridge_sampling(tree, energy.model, random_seed=3, **kwargs)


@pytest.fixture(scope="module")
def quick() -> dict[str, tuple[Energy, xr.DataTree]]:
    """Two energies and their bridges."""
    found = {}
    for name in QUICK:
        energy = ENERGIES[name]()
        found[name] = energy, bridged(energy, name)
    return found


@pytest.mark.parametrize("name", QUICK)
def test_bridge_and_importance_are_exact(
    name: str, quick: dict[str, tuple[Energy, xr.DataTree]]
) -> None:
    """Would catch a Jacobian left out, or counted twice."""
    energy, tree = quick[name]
    models.assert_log_z(tree, energy.log_z, within=0.03)
    assert list(tree["evidence"]["estimator"].values) == ["bridge", "importance"]
    second = tree["evidence"].to_dataset().isel(estimator=1)
    assert abs(float(second["log_z"]) - energy.log_z) < 4 * float(second["mcse"])


@pytest.mark.slow
@ignore_potentials
@pytest.mark.parametrize("method", ["warp3", "normal"])
@pytest.mark.parametrize("name", ENERGIES)
def test_bridge_is_exact_on_every_energy(name: str, method: str) -> None:
    """Skewed, heavy-tailed, bimodal and curved posteriors of 1 to 20 dimensions."""
    energy = ENERGIES[name]()
    tree = bridged(energy, name, method=method)
    print(name, method, float(tree["evidence"]["log_z"][0]) - energy.log_z, tree["evidence"].attrs)
    models.assert_log_z(tree, energy.log_z, within=0.3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", models.MODELS)
def test_bridge_and_hais_agree_on_every_kind_of_model(name: str) -> None:
    """Would catch a transform, a data container or a potential that the bridge mishandles."""
    model = models.MODELS[name]()
    tree = models.quick(model, draws=1000, chains=4)
    log_z, mcse, _ = models.log_z_of(tree)
    # as of another sampler, since a run with weights is refused
    found = xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset()})
    bridge_log_z, bridge_mcse, status = models.log_z_of(
        bridge_sampling(found, model, random_seed=2)
    )
    # resampled draws repeat, so the error of this bridge is somewhat small
    assert status == "ok"
    assert abs(log_z - bridge_log_z) < 4 * np.hypot(mcse, 2 * bridge_mcse)


def coverage_of(
    energy: Energy, n: int, method: str, monkey: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> np.ndarray:
    """Whether the intervals of n bridges, each from draws of its own, cover."""
    density = RowDensity(flatten_model(energy.model))
    rng = make_rng("bridge coverage", energy.name, method)
    errors = []
    for _ in range(n):
        tree = models.exact_draws(energy, rng, 250, 2)
        posterior = posterior_rows(tree, density.flat)
        posterior = PosteriorRows(monkey(posterior.rows), posterior.on_boundary)
        rows = posterior.rows[~posterior.on_boundary]
        log_target = density.log_target(rows).reshape(posterior.on_boundary.shape)
        [one] = module.bridge(density, posterior, log_target, method, None, None, rng)[0]
        errors.append((one.log_z - energy.log_z) / one.mcse)
    return np.abs(errors) < 1.96


def test_a_small_sweep_of_bridges_covers() -> None:
    """Would catch an error that leaves one of the two sets of draws out."""
    check_coverage(coverage_of(student_location(), 40, "warp3"))


def test_draws_that_were_moved_are_found() -> None:
    """Would catch a sweep that cannot fail: draws of another posterior."""
    energy = student_location()
    assert_detects(
        lambda scale: check_coverage(coverage_of(energy, 40, "normal", lambda x: x * scale)), 1.5
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["warp3", "normal"])
@pytest.mark.parametrize("name", ["poisson_gamma", "radiata_pine", "uncentred_hierarchy", "ridge"])
def test_intervals_of_bridges_cover(name: str, method: str) -> None:
    """Error bars of whole bridges, fit included, over 200 replicates."""
    covered = coverage_of(ENERGIES[name](), 200, method)
    print(name, method, covered.mean())
    check_coverage(covered)


def test_warping_takes_skewness_out() -> None:
    """Would catch a mirror in the wrong place: warp-III must bring more overlap, same log Z."""
    energy = energies.poisson_gamma()
    plain, warped = (bridged(energy, "skew", method=method) for method in ("normal", "warp3"))
    assert plain["evidence"].attrs["overlap"] < warped["evidence"].attrs["overlap"]
    assert models.log_z_of(warped)[1] < 0.7 * models.log_z_of(plain)[1]


def test_tree_comes_back_with_evidence_only(
    quick: dict[str, tuple[Energy, xr.DataTree]], tmp_path: Path
) -> None:
    """Would catch an argument that is changed, and attributes that no file can hold."""
    energy, _ = quick["student_location"]
    tree = models.exact_draws(energy, make_rng("same tree"), 200, 2)
    before = tree.copy(deep=True)
    found = bridge_sampling(tree, energy.model, random_seed=1, draws=500)
    xr.testing.assert_identical(before, tree)
    assert found["evidence"].attrs["n_proposal"] == 500
    found.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    found.to_zarr(tmp_path / "a.zarr")
    again = xr.open_datatree(tmp_path / "a.nc", engine="h5netcdf")
    xr.testing.assert_equal(
        again["evidence"].to_dataset().drop_vars(["status", "estimator"]),
        found["evidence"].to_dataset().drop_vars(["status", "estimator"]),
    )
    with energy.model:
        from_file = bridge_sampling(again, random_seed=1, draws=500)
    assert models.log_z_of(from_file) == models.log_z_of(found)


@cache
def two_scales(shift: float = 0.0, name: str = "sigma") -> pm.Model:
    """A mean and a scale."""
    with pm.Model() as model:
        mu = pm.Normal("mu", np.float64(0), np.float64(1))
        sigma = pm.HalfNormal(name, np.float64(1))
        pm.Normal("y", mu, sigma, observed=MU + shift)
    return model


def draws_of(n_chains: int = 4, n_draws: int = 200, **change: np.ndarray) -> xr.DataTree:
    """Something that looks like a posterior of `two_scales`."""
    rng = make_rng("draws of two scales")
    posterior = {
        "mu": rng.normal(0.3, 0.3, (n_chains, n_draws)),
        "sigma": rng.gamma(9.0, 1 / 12, (n_chains, n_draws)),
    }
    return xr.DataTree.from_dict(
        {
            "posterior": dict_to_dataset({**posterior, **change}),
            "observed_data": xr.Dataset({"y": ("obs", MU)}),
        }
    )


def _with_stats(**stats: np.ndarray) -> xr.DataTree:
    tree = draws_of()
    tree["sample_stats"] = xr.DataTree(dict_to_dataset(stats))
    return tree


def _boundary(share: float) -> xr.DataTree:
    tree = draws_of()
    sigma = tree["posterior"]["sigma"].to_numpy().copy()
    sigma.ravel()[: int(share * sigma.size)] = 0.0
    return draws_of(sigma=sigma)


FLAG = np.zeros((4, 200), dtype=bool)
FLAG[:, :30] = True
REFUSED = {
    "missing": (draws_of, lambda: two_scales(name="tau"), "no variable"),
    "shape": (lambda: draws_of(mu=np.zeros((4, 200, 2))), two_scales, "have shape"),
    "other data": (draws_of, lambda: two_scales(1.0), "other data"),
    "few": (lambda: draws_of(2, 40), two_scales, "at least 100 draws"),
    "short": (lambda: draws_of(12, 12), two_scales, "16 in each chain"),
    "warm-up": (lambda: _with_stats(tuning=FLAG), two_scales, "still has its warm-up"),
    "weighted": (
        lambda: draws_of(log_weight=np.zeros((4, 200))),
        two_scales,
        r"evidence\(tree\)",
    ),
    "boundary": (lambda: _boundary(0.1), two_scales, "on the boundary"),
    "nan": (lambda: draws_of(mu=np.full((4, 200), np.nan)), two_scales, "not all finite"),
    "stored density": (
        lambda: _with_stats(lp=make_rng("lp").normal(size=(4, 200))),
        two_scales,
        "is not the model's",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_posteriors_of_something_else_are_refused(case: str) -> None:
    """Would catch a number for a posterior that is not the model's."""
    tree, model, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        bridge_sampling(tree(), model())


def test_other_things_are_refused() -> None:
    """Would catch a stacked posterior, an argument outside its range, or no tree at all."""
    stacked = draws_of()
    stacked["posterior"] = xr.DataTree(
        stacked["posterior"].to_dataset().stack(sample=["chain", "draw"]).reset_index("sample")
    )
    with pytest.raises(ValueError, match="has no dimension"):
        bridge_sampling(stacked, two_scales())
    with pytest.raises(ValueError, match="method='warp4'"):
        bridge_sampling(draws_of(), two_scales(), method="warp4")
    with pytest.raises(ValueError, match="cross_check='t'"):
        bridge_sampling(draws_of(), two_scales(), cross_check="t")
    with pytest.raises(ValueError, match="draws=1"):
        bridge_sampling(draws_of(), two_scales(), draws=1)
    with pytest.raises(TypeError, match="idata is of type Dataset"):
        bridge_sampling(draws_of()["posterior"].to_dataset(), two_scales())


def test_priors_without_a_constant_are_refused() -> None:
    """Would catch a log Z that means nothing; the remedy is in the message."""
    with pm.Model() as flat:
        sigma = pm.HalfFlat("sigma")
        pm.Normal("y", pm.Normal("mu"), sigma, observed=MU)
    with pytest.raises(ImproperPriorError, match="give it a proper prior"):
        bridge_sampling(draws_of(), flat)
    with pm.Model() as discrete:
        pm.Normal("y", pm.Poisson("mu", 1), 1, observed=MU)
    with pytest.raises(ModelError, match="discrete"):
        bridge_sampling(draws_of(), discrete)


WARNED = {
    "one chain": (lambda: draws_of(1, 400), "has only one chain"),
    "diverged": (lambda: _with_stats(diverging=FLAG), "120 of 800 draws diverged"),
    "fitted": (lambda: _fitted(), "from an approximate fit, not from MCMC"),
    "boundary": (lambda: _boundary(0.005), "lie on the boundary"),
    "chains": (
        lambda: draws_of(mu=draws_of()["posterior"]["mu"].values + np.arange(4)[:, None] / 5),
        "chains do not agree",
    ),
    "unknown": (lambda: draws_of(rho=np.zeros((4, 200))), "does not know"),
    "resampled": (
        lambda: draws_of(
            **{
                name: values.to_numpy()[:, make_rng("resampled").integers(0, 200, 200)]
                for name, values in draws_of()["posterior"].items()
            }
        ),
        "repeat an earlier one",
    ),
}


def _fitted() -> xr.DataTree:
    """Draws as ``pm.fit(...).sample()`` leaves them."""
    tree = draws_of()
    tree["posterior"].attrs["inference_library"] = "pymc"
    tree["sample_stats"] = xr.DataTree(xr.Dataset())
    return tree


@pytest.mark.parametrize("case", WARNED)
def test_doubtful_posteriors_come_with_a_warning(case: str) -> None:
    """Would catch a doubt that is kept from the reader."""
    tree, message = WARNED[case]
    with pytest.warns(EvidenceWarning, match=message):
        posterior_rows(tree(), flatten_model(two_scales()))


def test_warm_up_without_a_flag_is_seen() -> None:
    """Would catch chains that begin far away, and a warning for chains that do not."""
    log_target = make_rng("warm-up").gamma(2.0, 1.0, (4, 500))
    module.check_start_of_chains(-log_target)
    log_target[1, :5] += 40.0
    with pytest.warns(EvidenceWarning, match="warm-up may have been left in"):
        module.check_start_of_chains(-log_target)


def test_estimates_that_disagree_are_told() -> None:
    """Would catch a cross-check that nobody hears of, and one that accuses without grounds."""

    def against(log_z: float, khat: float = 0.1, status: str = "ok", mcse: float = 0.04) -> int:
        first = LogZEstimate("bridge", 0.0, 0.03, 100.0, np.nan, "ok")
        other = LogZEstimate("importance", log_z, mcse, 100.0, khat, status)
        return len(disagreements(first, [other]))

    # by four errors, and by ten if it is lower and its tail heavier
    for loud in ((0.21,), (-0.21,), (0.21, 0.6), (-0.51, 0.6), (0.21, 0.9, "high_khat")):
        assert against(*loud) == 1
    for quiet in ((0.19,), (0.19, 0.9, "high_khat"), (-0.4, 0.6), (-9.0, 0.9, "high_khat")):
        assert against(*quiet) == 0
    # from far above if it has no error of its own
    for log_z, n in ((9.0, 1), (6.0, 0), (-9.0, 0)):
        assert against(log_z, 2.0, "degenerate", np.nan) == n


def test_potentials_count_and_a_constant_shifts_log_z() -> None:
    """Would catch a potential left out of the target."""
    rng = make_rng("potential")
    tree = xr.DataTree.from_dict(
        {"posterior": dict_to_dataset({"mu": rng.normal(0.35, np.sqrt(0.5), (4, 250))})}
    )
    plain = bridge_sampling(tree, models.normal_normal(), random_seed=1)
    with pytest.warns(EvidenceWarning, match="potentials"):
        shifted = bridge_sampling(tree, models.normal_with_offset(70.0), random_seed=1)
    assert models.log_z_of(shifted)[0] == pytest.approx(models.log_z_of(plain)[0] + 70, abs=1e-6)


def test_prior_that_a_transform_restricts_is_renormalised() -> None:
    """Would catch another convention than that of annealing: low by log 2 here."""
    with pm.Model() as model:
        mu = pm.Normal(
            "mu", np.float64(0), np.float64(1), shape=2, transform=ordered, initval=[-1, 1]
        )
        pm.Normal("y", mu, np.float64(1), observed=[0.3, 0.3])
    rng = make_rng("ordered")
    draws = np.sort(rng.normal(0.15, np.sqrt(0.5), (4, 1000, 2)), axis=2)
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset({"mu": draws})})
    with pytest.warns(EvidenceWarning, match="restricted to them and renormalised"):
        found = bridge_sampling(tree, model, random_seed=1)
    # independent normals of variance 2, and half of the prior and of the posterior are ordered
    exact = 2 * (-0.5 * 0.3**2 / 2 - 0.5 * np.log(2 * np.pi * 2))
    log_z, mcse, _ = models.log_z_of(found)
    assert abs(log_z - exact) < 4 * mcse < 0.1


def test_names_of_any_kind() -> None:
    """Would catch names that PyTensor takes for dtypes, as those of Bambi's group effects."""
    with pm.Model() as model:
        mu = pm.Normal("1|group", shape=2)
        pm.Normal("y", mu, 1, observed=[0.4, -0.4])
    draws = make_rng("names").normal([0.2, -0.2], np.sqrt(0.5), (2, 100, 2))
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset({"1|group": draws})})
    assert models.log_z_of(bridge_sampling(tree, model, random_seed=1))[2] == "ok"


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_densities_that_are_nan_are_counted_and_told() -> None:
    """Would catch NaN that spreads, or that nobody hears of."""
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Potential("bound", pm.math.log(mu))
        pm.Normal("y", mu, 1, observed=0.5)
    grid = (np.arange(8000) + 0.5) / 1000
    log_density = np.log(grid) - 0.5 * grid**2 - 0.5 * (grid - 0.5) ** 2 - np.log(2 * np.pi)
    weight = np.exp(log_density)
    rng = make_rng("nan")
    draws = rng.choice(grid, (4, 1000), p=weight / weight.sum())
    draws += rng.uniform(-0.0005, 0.0005, draws.shape)
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset({"mu": draws})})
    with pytest.warns(EvidenceWarning, match=r"was NaN \d+ times during draws of the proposals"):
        found = bridge_sampling(tree, model, random_seed=1)
    assert found["evidence"].attrs["n_nan"] > 10
    models.assert_log_z(found, float(np.log(weight.sum() / 1000)))
