"""A reference that is learned from a pilot: exact where it is taken, refused where it must be."""

from dataclasses import replace
from functools import partial

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from support import pymc_models as models
from support.annealing_relations import check_crooks
from support.checks import assert_detects, check_means, make_rng
from support.learned_references import ENERGIES, N_LOOKS, N_ROWS, Known, known

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.mixture import Mixture
from pymc_logz.pilot import learned
from pymc_logz.pilot.ladder import anneal_back, settled, variance_seen_from_target
from pymc_logz.pilot.learned import (
    COVERED,
    NEGLIGIBLE,
    apart,
    covered_share,
    islands_log_z,
    learned_reference,
    left_to_prior,
    objection,
    too_far,
)
from pymc_logz.pilot.population import ISLANDS
from pymc_logz.pilot.reference import Reference
from pymc_logz.runners.anneal import Annealed, Plan, anneal
from pymc_logz.runners.block import Block

pytestmark = [
    pytest.mark.filterwarnings("ignore:the model has potentials"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
N_FRESH = 24 * N_ROWS


def learned_from(of: Known, label: str = "pilot") -> tuple[Reference, Block, Plan]:
    """Reference fitted to exact draws, the block that starts there, and a short ladder."""
    stages = of.stages(of.rows(label, N_LOOKS * N_ROWS))
    reference = learned_reference(of.prepared, stages, make_rng("fit"))
    assert reference.taken == "learned", reference.reason
    return reference, reference.start(of.block), settled(stages).plan(8)


def fresh_run(block: Block, plan: Plan, label: str) -> Annealed:
    rng = make_rng("fresh", label)
    return anneal(block, plan, block.path.sample_reference(rng, N_FRESH), rng)


def check_z(log_weight: np.ndarray, log_z: float) -> None:
    """Fail unless the mean weight is Z."""
    check_means({"w / Z": np.exp(log_weight - log_z)}, 1.0)


# --- exact where it is taken ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ENERGIES)
def test_z_from_a_learned_reference_is_unbiased(name: str) -> None:
    """Catches a reference that is not normalised, or not the one that rows were drawn from."""
    of = known(name)
    _, block, plan = learned_from(of)
    check_z(fresh_run(block, plan, name).log_weight, of.energy.log_z)


def without_a_share(of: Known, reference: Reference) -> Block:
    """Moves from a reference that is drawn from, with half of a component's share left out."""
    start = reference.mixture
    assert start is not None
    lighter = start.shares * np.where(np.arange(len(start.shares)) == 0, 0.5, 1.0)
    block = replace(reference, mixture=replace(start, shares=lighter)).start(of.block)
    return block.along(block.path.values, sample_reference=start)


@pytest.mark.parametrize("name", ENERGIES)
def test_a_component_without_its_weight_is_detected(name: str) -> None:
    """Catches a check of log Z that a wrong share would pass."""
    of = known(name)
    reference, _, plan = learned_from(of)
    log_weight = fresh_run(without_a_share(of, reference), plan, "lighter").log_weight
    assert_detects(lambda weights: check_z(weights, of.energy.log_z), log_weight)


@pytest.mark.parametrize("name", ENERGIES)
def test_rows_that_were_fitted_may_not_be_weighted(name: str) -> None:
    """Catches a run that goes on with the pilot's rows in place of draws of the reference."""
    of = known(name)
    _, block, _ = learned_from(of)
    at_once = settled(of.stages(of.rows("pilot", N_LOOKS * N_ROWS))).plan(1)

    def check(start: np.ndarray) -> None:
        check_z(anneal(block, at_once, start, make_rng("weigh")).log_weight, of.energy.log_z)

    check(block.path.sample_reference(make_rng("drawn"), N_FRESH))
    assert_detects(
        check, np.resize(of.rows("pilot", N_LOOKS * N_ROWS), (N_FRESH, of.block.path.n_dims))
    )


@pytest.mark.parametrize("name", ENERGIES)
def test_both_directions_satisfy_crooks(name: str) -> None:
    """Catches trial rows annealed back that are not the time reversal of those from a reference."""
    of = known(name)
    reference, block, plan = learned_from(of)
    forward = fresh_run(block, plan, "crooks").log_weight - of.energy.log_z

    def check(block: Block) -> None:
        rows = of.rows("back", N_FRESH)
        backward = anneal_back(block, plan, rows, make_rng("back", name)) + of.energy.log_z
        check_crooks(forward, backward)

    check(block)
    assert_detects(check, without_a_share(of, reference))


@pytest.mark.parametrize("name", ["skewed", "two modes"])
def test_a_whole_run_says_where_it_started(name: str) -> None:
    """Catches a result that does not tell its reference, or that tells another."""
    energy = ENERGIES[name]()
    tree = models.quick(energy.model, random_seed=2)
    models.assert_log_z(tree, energy.log_z)
    attrs = tree["evidence"].attrs
    assert attrs["reference"] == "learned"
    n_components = int(attrs["reference_reason"].split()[0])
    assert n_components > (name == "two modes")
    from_prior = models.quick(energy.model, reference="prior")["evidence"].attrs
    assert (from_prior["reference"], from_prior["reference_reason"]) == (
        "prior",
        "it was asked for",
    )
    assert attrs["n_temperatures"] < from_prior["n_temperatures"]


def ordered_means() -> tuple[pm.Model, float]:
    """Two ordered means of which the data see the sum: half of the prior, and half of Z."""
    with pm.Model() as model:
        means = pm.Normal("means", 0, 1, shape=2, transform=models.ordered, initval=[-1.0, 1.0])
        pm.Normal("y", means.sum(), 1, observed=1.3)
    return model, float(stats.norm.logpdf(1.3, 0, np.sqrt(3)))


@pytest.mark.filterwarnings("ignore:the transforms take only")
def test_a_restricted_prior_has_its_true_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches log 2 too much or too little, and an error without that of the constant."""
    model, exact = ordered_means()
    taken: list[Reference] = []

    def noted(*args: object, **kwargs: object) -> Reference:
        taken.append(learned_reference(*args, **kwargs))
        return taken[-1]

    monkeypatch.setattr("pymc_logz.pilot.planning.learned_reference", noted)
    tree = models.quick(model)
    assert tree["evidence"].attrs["reference"] == "learned"
    models.assert_log_z(tree, exact)
    [reference] = taken
    assert reference.mixture is not None
    assert abs(reference.mixture.log_prior_mass - np.log(0.5)) < 4 * reference.mcse
    assert 0 < reference.mcse < models.log_z_of(tree)[1]
    monkeypatch.setattr(learned, "MAX_SHARE_ERROR", 0.0)
    monkeypatch.setattr("pymc_logz.pilot.planning.learned_reference", learned_reference)
    unsure = models.quick(model)
    models.assert_log_z(unsure, exact)
    assert unsure["evidence"].attrs["reference"] == "prior"
    assert "a transform restricts the prior" in unsure["evidence"].attrs["reference_reason"]


# --- refused where it must be --------------------------------------------------------------------


def one_mode(of: Known, sign: float) -> Elliptical:
    """Fit to the rows of one of two modes."""
    rows = of.rows("one mode", 8 * N_ROWS)
    rows = rows[np.sign(rows[:, 0]) == sign]
    return Elliptical(rows.mean(axis=0), np.linalg.cholesky(1.2 * np.cov(rows.T)), 5.0)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_fit_without_a_mode_is_refused(sign: float) -> None:
    """Catches a check that the larger mode alone, or the smaller one alone, would pass."""
    of = known("two modes")
    stages = of.stages(of.rows("pilot", N_LOOKS * N_ROWS))
    reference = learned_reference(of.prepared, stages, make_rng("fit"), mode=one_mode(of, sign))
    assert reference.taken == "prior"
    assert reference.mixture is None
    assert "cover the pilot's rows with an effective share of" in reference.reason
    assert reference.start(of.block) is of.block


def test_covered_share_tells_fits_apart() -> None:
    """Catches a share that is not one for the target itself, or not small without a mode."""
    of = known("two modes")
    rows = of.stages(of.rows("pilot", N_LOOKS * N_ROWS)).rows
    reference, _, _ = learned_from(of)
    assert rows is not None
    assert reference.mixture is not None
    assert covered_share(reference.mixture, rows) > 0.5
    assert left_to_prior(reference.mixture, rows) == 0.0
    without = Mixture((one_mode(of, -1.0),), np.array([0.98]), 0.02, None)
    assert covered_share(without, rows) < 5 * COVERED
    # the smaller of the two modes has a tenth of the posterior
    assert left_to_prior(without, rows) == pytest.approx(0.1, abs=0.05)

    class Same(Mixture):
        """The target itself."""

        def log_density_of(self, _: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
            return log_prior + rows.log_ratio - 3.0

    assert covered_share(Same((), np.empty(0), 1.0, None), rows) == pytest.approx(1.0)
    dead = rows._replace(log_ratio=np.full(len(rows.log_ratio), -np.inf))
    assert covered_share(without, dead) == 0.0


def test_judges_are_no_relatives() -> None:
    """Catches an island's rows that are fitted and judge the fit, or that are lost."""
    of = known("skewed")
    stages = of.stages(of.rows("pilot", N_LOOKS * N_ROWS))
    assert stages.rows is not None
    parts = [part.position for part in apart(stages)]
    looks = stages.rows.position.reshape(N_LOOKS, ISLANDS, N_ROWS // ISLANDS, -1)
    np.testing.assert_array_equal(parts[0], looks[:, :-1].reshape(parts[0].shape))
    np.testing.assert_array_equal(parts[1], looks[:, -1].reshape(parts[1].shape))


def test_a_prior_that_is_the_posterior_is_not_left_to_itself() -> None:
    """Catches data that say little, whose rows the prior covers as well as any component."""
    of = known("skewed")
    rows = of.prepared.prior(make_rng("no data"), N_LOOKS * N_ROWS)
    flat = of.target_rows(rows)._replace(log_ratio=np.zeros(len(rows)))
    fit = Elliptical(
        rows.mean(axis=0), np.linalg.cholesky(1.2 * np.atleast_2d(np.cov(rows.T))), 5.0
    )
    start = Mixture((fit,), np.array([0.98]), 0.02, None)
    assert left_to_prior(start, flat) < NEGLIGIBLE


def test_trial_rows_that_end_elsewhere_are_an_objection() -> None:
    """Catches a reference that is taken though fresh rows from it never see a mode."""
    of = known("two modes")
    stages = of.stages(of.rows("pilot", N_LOOKS * N_ROWS))
    _, block, plan = learned_from(of)
    rng = make_rng("trial")
    trial = anneal(block, plan, block.path.sample_reference(rng, N_ROWS), rng)
    assert objection(stages, trial) is None
    at_one = of.rows("other", 8 * N_ROWS)
    at_one = at_one[at_one[:, 0] > 0][:N_ROWS]
    elsewhere = trial._replace(position=at_one, log_weight=np.full(len(at_one), of.energy.log_z))
    said = objection(stages, elsewhere)
    assert said is not None
    assert "disagree with the pilot about" in said


def test_another_log_z_than_the_pilots_is_an_objection() -> None:
    """Catches a reference whose log Z is off by more than both errors, and one that is refused."""
    of = known("skewed")
    stages = replace(
        of.stages(of.rows("pilot", N_LOOKS * N_ROWS)), log_z=np.array([0.1, 0, 0, -0.1])
    )
    assert too_far(stages, 0.02, 0.01) is None
    assert "3.00 nats away" in str(too_far(stages, 3.0, 0.01))
    assert too_far(stages, 3.0, 1.0) is None


def test_islands_are_independent_looks() -> None:
    """Catches a mean of logarithms in place of one of Z, and an error that is not of the mean."""
    of = known("skewed")
    z = np.array([1.0, 2.0, 3.0, 2.0])
    stages = replace(of.stages(of.rows("pilot", N_LOOKS * N_ROWS)), log_z=np.log(z) - 700)
    log_z, error = islands_log_z(stages)
    assert log_z == pytest.approx(np.log(2.0) - 700)
    assert error == pytest.approx(z.std(ddof=1) / 2 / 2)
    assert islands_log_z(replace(stages, log_z=np.zeros(1))) == (0.0, np.inf)


def test_a_curvature_that_misses_a_mode_falls_back() -> None:
    """Catches reference='laplace' on two far modes: off by .4 to .9 nats with status ok."""
    energy = energies.two_gaussians(2)
    tree = models.quick(energy.model, reference="laplace")
    models.assert_log_z(tree, energy.log_z)
    attrs = tree["evidence"].attrs
    assert attrs["reference"] == "learned"
    assert "1 Student-t component with the curvature at the mode" in attrs["reference_reason"]
    assert "2 Student-t components fitted to" in attrs["reference_reason"]


# --- trial rows from the target ------------------------------------------------------------------


@pytest.mark.parametrize("sd", [1.0, 1.3, 2.0])
def test_variance_seen_from_the_target_is_known_for_normals(sd: float) -> None:
    """Catches the wrong sign of a weight, and a variance of the target's rows for the others'.

    For a target N(0, 1) and a reference N(0, sd^2) the mean square of the weights is
    ``sd / sqrt(2 - 1 / sd^2)``, and the weight ESS of their rows one over that.
    """
    x = make_rng("normals", sd).standard_normal(50_000)
    log_weight = stats.norm.logpdf(x) - stats.norm.logpdf(x, scale=sd) + 7.0
    exact = np.log(sd / np.sqrt(2 - 1 / sd**2))
    # the largest hundredth of the weights counts as the next one
    assert variance_seen_from_target(log_weight) == pytest.approx(exact, abs=0.02)


def test_variance_seen_from_the_target_sees_what_the_reference_lacks() -> None:
    """Catches trial rows that stay where the reference is, and say that all is well."""
    lost = np.where(make_rng("lost").random(2000) < 0.1, 15.0, 0.0)
    assert variance_seen_from_target(lost) > 5
    few = np.where(make_rng("few").random(2000) < 0.005, 15.0, 0.0)
    assert variance_seen_from_target(few) < 0.1
    assert variance_seen_from_target(np.array([0.0, np.inf])) == np.inf
    assert variance_seen_from_target(np.full(3, -np.inf)) == np.inf


def test_rows_annealed_back_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches rows that are left out, or that make the block compile for another number."""
    of = known("skewed")
    sizes: list[int] = []

    def noted(block: Block, plan: Plan, start: np.ndarray, rng: object) -> object:
        sizes.append(len(start))
        return type("Run", (), {"log_weight": start[:, 0]})

    monkeypatch.setattr("pymc_logz.pilot.ladder.anneal", noted)
    back = partial(
        anneal_back, of.block, settled(of.stages(of.rows("b", N_LOOKS * N_ROWS))).plan(2)
    )
    n = of.block.n_rows
    rows = np.arange(2.5 * n)[:, None]
    assert len(np.unique(back(rows, make_rng("more")))) == 2 * n
    assert sizes == [n] * 2
    assert set(back(rows[:100], make_rng("fewer"))) == set(range(100))
    assert sizes == [n] * 3


def test_a_mode_without_a_curvature_falls_back_to_the_rows() -> None:
    """Catches the prior's path in its place: 3 to 6 errors too low with ok, along 1,000 levels."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 5)
        pm.Potential("cusp", -20 * pm.math.sqrt(pm.math.abs(x)))
    # Z / 2 is int exp(-20 sqrt(x)) N(x | 0, 5) dx, in y = sqrt(x)
    y = np.linspace(0, 8, 200_001)
    exact = np.log(2 * np.trapezoid(2 * y * np.exp(-20 * y) * stats.norm.pdf(y**2, 0, 5), y))
    with pytest.warns(UserWarning, match="potentials"):
        tree = models.quick(model, reference="laplace")
    models.assert_log_z(tree, exact)
    assert tree["evidence"].attrs["reference"] == "learned"
    assert tree["evidence"].attrs["n_temperatures"] < 20


def test_laplace_is_taken_where_it_covers() -> None:
    """Catches a curvature that is never taken."""
    energy = energies.beta_bernoulli()
    tree = lz.sample_hais(
        model=energy.model, chains=2, reference="laplace", random_seed=3, progressbar=False
    )
    models.assert_log_z(tree, energy.log_z)
    assert tree["evidence"].attrs["reference"] == "laplace"
