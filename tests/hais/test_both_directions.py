"""Reverse annealing, references, target_mcse and sandwich on models of known log Z."""

from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.special import betaln
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.hais import run as hais
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.calls import Call
from pymc_logz.loop.frozen import Planned
from pymc_logz.models.flat import constrain, flatten_model, unconstrain
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.references.reference import ASKED_FOR
from pymc_logz.seeds import Generators

mpl.use("Agg")
pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]
METHODS = ("hais", "hais_reverse", "bar")


def entry(tree: xr.DataTree, method: str) -> tuple[float, float, str]:
    """Log Z, error and status of one method."""
    group = tree["evidence"].to_dataset().sel({"estimator": method})
    return float(group["log_z"]), float(group["mcse"]), str(group["status"].item())


def assert_all_right(tree: xr.DataTree, exact: float) -> None:
    """Each method within four of its errors."""
    for method in METHODS:
        log_z, mcse, _ = entry(tree, method)
        assert abs(log_z - exact) < 4 * mcse, method


@pytest.fixture(scope="module")
def student() -> energies.Energy:
    """One bimodal dimension with heavy tails."""
    return energies.student_location()


@pytest.fixture(scope="module")
def both(student: energies.Energy) -> xr.DataTree:
    """A run in both directions from its own ends."""
    return models.quick(student.model, direction="both")


def test_both_directions_are_right(student: energies.Energy, both: xr.DataTree) -> None:
    """Would catch a reverse run that is no time reversal, or starts off the target."""
    assert_all_right(both, student.log_z)
    assert list(both["evidence"]["estimator"].to_numpy()) == ["hais", "hais_reverse", "bar"]
    assert entry(both, "bar")[2] == entry(both, "hais_reverse")[2] == "approximate_starts"
    gap = entry(both, "hais_reverse")[0] - entry(both, "hais")[0]
    assert both["evidence"].attrs["gap"] == pytest.approx(gap)
    betas = both["reverse_annealing"]["beta"].to_numpy()
    assert (betas[0], betas[-1]) == (1.0, 0.0)


def test_given_draws_make_bar_the_recommended_entry(
    student: energies.Energy, both: xr.DataTree
) -> None:
    """Would catch draws that are passed and not used."""
    tree = models.quick(student.model, direction="both", posterior_draws=both)
    assert tree["evidence"]["estimator"].to_numpy()[0] == "bar"
    assert entry(tree, "bar")[2] == "ok"
    assert_all_right(tree, student.log_z)


def test_given_draws_are_dealt_out_to_all_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch chains that all start from the first draws: those of one mode, if sorted."""
    monkeypatch.setattr(hais, "anneal_each", lambda name, course, starts, *_: starts)
    rng = np.random.default_rng(1)
    plan = SimpleNamespace(reverse=lambda: None, n_temperatures=1)
    planned = Planned(SimpleNamespace(cost_of_move=1, work=None), plan, ASKED_FOR)
    forward = [SimpleNamespace(log_weight=np.zeros(n)) for n in (3, 5)]
    settings = HaisSettings(chains=2, tune=1)
    call = Call(settings, Generators(rng, rng, rng))
    for n_given in (8, 4):
        rows = np.arange(float(n_given))[:, None]
        starts = hais.Chains(call, rows).back(planned, forward)
        assert [start.shape for start in starts] == [(3, 1), (5, 1)]
        given = np.concatenate(starts).ravel()
        np.testing.assert_array_equal(np.sort(given), np.sort(np.resize(rows.ravel(), 8)))
        assert not np.array_equal(given, np.resize(rows.ravel(), 8))


def test_references_that_are_none_are_refused(student: energies.Energy) -> None:
    """Would catch a typing error that runs from the prior."""
    with pytest.raises(
        ValueError,
        match=r"reference='posterior' must be one of \(None, 'learned', 'laplace', 'prior'\), "
        "or a DataTree with draws of the posterior, or another PyMC model",
    ):
        models.quick(student.model, reference="posterior")
    other = xr.Dataset({"z": (("chain", "draw"), [[1.0]])})
    with pytest.raises(ValueError, match=r"no variable \['location'\]"):
        models.quick(student.model, reference=xr.DataTree.from_dict({"posterior": other}))


def test_student_reference_draws_follow_its_density() -> None:
    """Would catch a normalising constant off by a factor: the mean of p/q is 1 for a normal p."""
    reference = Elliptical(np.array([1.0, -2.0]), np.array([[2.0, 0.0], [1.0, 0.5]]), df=5.0)
    rows = reference(np.random.default_rng(1), 20_000)
    log_q = reference.log_density_of(rows[:400])
    whitened = np.linalg.solve(reference.factor, (rows[:400] - reference.centre).T)
    log_p = -0.5 * (whitened**2).sum(axis=0) - np.log(2 * np.pi) - np.log(2.0 * 0.5)
    ratio = np.exp(log_p - log_q)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / 20
    assert np.allclose(np.median(rows, axis=0), reference.centre, atol=0.06)


@pytest.mark.parametrize("name", ["radiata_pine", "hierarchical_normal"])
def test_unconstrain_inverts_constrain(name: str) -> None:
    """Would catch variables in another order, or a transform without its parents."""
    flat = flatten_model(getattr(energies, name)().model)
    rows = PriorDraws(flat.model)(np.random.default_rng(1), 6)
    values = constrain(flat, rows)
    dataset = xr.Dataset(
        {
            key: (("chain", "draw", *[f"{key}_{i}" for i in range(value.ndim - 1)]), value[None])
            for key, value in values.items()
        }
    )
    assert np.allclose(unconstrain(flat, dataset), rows, rtol=1e-8)


def test_target_mcse_is_met_or_said_to_be_out_of_reach(student: energies.Energy) -> None:
    """Would catch a run that stops early, or one that never does."""
    tree = models.quick(student.model, draws=64, betas=100, target_mcse=0.02)
    log_z, mcse, _ = entry(tree, "hais")
    assert mcse <= 0.02
    assert abs(log_z - student.log_z) < 4 * mcse
    assert tree["posterior"].sizes["draw"] > 64
    with pytest.warns(lz.EvidenceWarning, match="target_mcse=1e-05 is out of reach"):
        models.quick(student.model, draws=16, betas=50, target_mcse=1e-5)


def test_sandwich_encloses_the_truth_of_the_data_it_made() -> None:
    """Would catch data that do not come from the draw that the reverse rows start at."""
    with pm.Model() as model:
        p = pm.Beta("p", 2, 3)
        pm.Bernoulli("y", p, observed=np.zeros(60, dtype=int))
    tree = lz.sandwich(model, chains=2, random_seed=7, progressbar=False)
    successes = int(tree["observed_data"]["y"].sum())
    assert successes > 0
    assert_all_right(tree, betaln(2 + successes, 63 - successes) - betaln(2, 3))
    assert tree["evidence"]["estimator"].to_numpy()[0] == "bar"
    with model:
        pm.Potential("extra", -p)
    with (
        pytest.warns(lz.EvidenceWarning, match="potentials"),
        pytest.raises(lz.ModelError, match="cannot be simulated"),
    ):
        lz.sandwich(model, progressbar=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"direction": "back"}, "direction='back' must be"),
        ({"target_mcse": -1.0}, "target_mcse=-1.0 must be positive"),
        ({"posterior_draws": xr.DataTree()}, "use direction='both'"),
    ],
)
def test_bad_arguments(student: energies.Energy, arguments: dict, message: str) -> None:
    """Would catch an argument that is ignored."""
    with pytest.raises(ValueError, match=message):
        models.quick(student.model, **arguments)


def test_figures(both: xr.DataTree) -> None:
    """Would catch a figure that needs what a run does not have, and the panels' names."""
    assert lz.plot_path(both).viz["plot"].sizes == {"panel": 4}
    assert lz.plot_weights(both).viz["plot"].sizes == {"panel": 2}
    assert lz.plot_sandwich([both, both], log_z=-4.3).viz["plot"].sizes == {"panel": 1}
    for figure in (lz.plot_path, lz.plot_weights):
        with pytest.raises(ValueError, match="needs a DataTree with a group"):
            figure(xr.DataTree())
    with pytest.raises(ValueError, match="direction='both'"):
        lz.plot_sandwich([])
