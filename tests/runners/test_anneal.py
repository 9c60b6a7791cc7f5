"""Annealing: exact weights, exact reversal, unbiased Z, rows that fail."""

from functools import partial

import numpy as np
import pytest
from support.annealing_relations import check_crooks, uneven_plan
from support.checks import assert_detects, check_means, check_same_law, make_rng
from support.paths_with_exact_draws import N_ROWS, TARGETS, Target, compiled_block, dead_zone_block
from support.plain_annealing import PLAIN, plain_anneal, recorded_noise

from pymc_logz.kernels import Hamiltonian
from pymc_logz.kernels.base import Move
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.runners.anneal import Annealed, Plan, anneal
from pymc_logz.runners.block import MOST_BRIEF, MOVES_PER_BLOCK, Block
from pymc_logz.weights import weight_ess

KERNEL = Hamiltonian()


def short_plan(target: Target, n_temperatures: int = 4) -> Plan:
    """Far from converged: an unbiased Z has to come from exactness alone."""
    return target.plan(linear_betas(n_temperatures) ** 1.5, 0.9)


def run_forward(name: str, plan: Plan, label: str = "", kernel: Hamiltonian = KERNEL) -> Annealed:
    rng = make_rng("forward", name, label)
    start = TARGETS[name].sample(rng, 0.0, N_ROWS)
    return anneal(compiled_block(name, kernel), plan, start, rng)


def run_reverse(name: str, plan: Plan, label: str = "") -> Annealed:
    """``plan`` is the reversed one; rows start from exact draws of the target."""
    rng = make_rng("reverse", name, label)
    start = TARGETS[name].sample(rng, 1.0, N_ROWS)
    return anneal(compiled_block(name, KERNEL), plan, start, rng)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n_temperatures", [1, 2, 31, 32, 33, 45])
@pytest.mark.parametrize(("name", "n_steps"), [("gaussian", 1), ("log_gamma", 3)])
def test_weights_equal_a_plain_numpy_annealing(
    name: str, n_steps: int, n_temperatures: int, reverse: bool
) -> None:
    """Catches weights out of step with moves, lost moves between blocks, padding that acts."""
    target, block = TARGETS[name], compiled_block(name, Hamiltonian(n_steps=n_steps, half_life=1.0))
    plan = uneven_plan(target, n_temperatures)
    plan = plan.reverse() if reverse else plan
    start = target.sample(make_rng("plain", name), float(plan.betas[0]), N_ROWS)
    got = anneal(block, plan, start, make_rng("noise", name))
    noise = recorded_noise(
        make_rng("noise", name), n_temperatures, block.n_moves, N_ROWS, target.n_dims
    )
    log_weight, position, acceptance = plain_anneal(
        PLAIN[name],
        start,
        noise,
        betas=plan.betas,
        step_sizes=plan.step_size,
        scale=plan.scale,
        n_steps=n_steps,
    )
    np.testing.assert_allclose(got.log_weight, log_weight, rtol=0, atol=1e-10)
    np.testing.assert_allclose(got.position, position, rtol=0, atol=1e-10)
    np.testing.assert_allclose(got.log_ratio, PLAIN[name].log_ratio(position), atol=1e-10)
    np.testing.assert_allclose(got.log_reference, PLAIN[name].log_reference(position), atol=1e-10)
    if n_temperatures > 1:
        np.testing.assert_allclose(got.acceptance_rate, acceptance.mean(axis=0), atol=1e-10)
        np.testing.assert_allclose(
            got.stage_acceptance_rate[1:-1], acceptance.mean(axis=1), atol=1e-10
        )
    assert np.all(np.isnan(got.stage_acceptance_rate[[0, -1]]))
    assert got.stage_weight_ess[-1] == pytest.approx(weight_ess(log_weight))


def test_reversed_plan_mirrors_the_moves() -> None:
    """Catches a refreshment that belongs to a move and not to the gap between two moves."""
    plan = uneven_plan(TARGETS["gaussian"], 9)
    forward, backward = (p.moves(KERNEL, slice(None)) for p in (plan, plan.reverse()))
    for name in ("beta", "step_size", "scale"):
        np.testing.assert_allclose(
            getattr(backward, name)[1:], getattr(forward, name)[1:][::-1], err_msg=name
        )
    np.testing.assert_allclose(backward.refreshment[2:], forward.refreshment[2:][::-1])
    assert np.ptp(forward.refreshment[2:]) > 0.1
    for moves in (forward, backward):
        assert (moves.beta[0], moves.step_size[0], moves.refreshment[0]) == (0.0, 0.0, 1.0)


def test_reversed_plan_mirrors_dense_scales() -> None:
    """Catches factors of correlation read from the wrong end, or from the wrong stage."""
    rng, stages = make_rng("factors"), 4
    factors = np.tril(rng.normal(size=(stages, 2, 2)))
    betas = linear_betas(9)
    plan = Plan(
        betas, np.ones(10), rng.uniform(1, 2, (10, 2)), factors, np.linspace(0, stages - 1, 10)
    )
    forward, backward = (p.moves(KERNEL, slice(None)).scale for p in (plan, plan.reverse()))
    assert forward.shape == (9, 2, 2)
    np.testing.assert_allclose(backward[1:], forward[1:][::-1])
    # every third beta is at a stage: there the factor is that stage's own
    np.testing.assert_allclose(forward[3], plan.scale[3][:, None] * factors[1])
    np.testing.assert_allclose(
        forward[4], plan.scale[4][:, None] * (2 * factors[1] + factors[2]) / 3
    )
    parts = [plan.moves(KERNEL, slice(a, a + 4)).scale for a in (0, 4, 8)]
    np.testing.assert_array_equal(np.concatenate(parts), forward)


# the weights of the bimodal target are too heavy-tailed for a z-test on a short ladder
@pytest.mark.parametrize("name", ["gaussian", "log_gamma", "student"])
def test_forward_z_is_unbiased(name: str) -> None:
    """Catches weights off by one temperature, and a kernel that is wrong at the beta it is told."""
    run = run_forward(name, short_plan(TARGETS[name]), "unbiased")
    weight = np.exp(run.log_weight - TARGETS[name].log_z)
    assert weight.std() > 0.05, "weights that hardly vary test nothing"
    check_means({"w / Z": weight}, 1.0)


@pytest.mark.parametrize("name", ["gaussian", "log_gamma"])
def test_forward_z_detects_weights_after_the_move(name: str) -> None:
    """Catches a test of unbiasedness without power: here each row is moved, then weighted."""
    target, rng = TARGETS[name], make_rng("late weights", name)
    plan, block = short_plan(target), compiled_block(name, KERNEL)
    step_size = plan.step_size.copy()
    step_size[0] = 0.0
    moves = Move(plan.betas, step_size, plan.scale, np.ones(step_size.size))
    _, trace = block.run(block.initial_state(target.sample(rng, 0.0, N_ROWS)), moves, rng)
    log_weight = np.diff(plan.betas) @ trace.log_ratio[1:]
    check = partial(check_means, expected=1.0)
    assert_detects(check, {"w / Z": np.exp(log_weight - target.log_z)})


@pytest.mark.parametrize("name", ["gaussian", "log_gamma", "student"])
def test_forward_and_reverse_satisfy_crooks(name: str) -> None:
    """Catches a reverse run that is not the time reversal: other beta, step size or weights.

    With W the forward log weight minus log Z and V the reverse one plus log Z, the mean of
    ``exp(W) f(W)`` is that of ``f(-V)`` for every f: Crooks (1999), eq. 10.
    """
    target, plan = TARGETS[name], uneven_plan(TARGETS[name], 5)
    forward = run_forward(name, plan, "crooks").log_weight - target.log_z

    def check(backward_plan: Plan) -> None:
        backward = run_reverse(name, backward_plan, "crooks").log_weight + target.log_z
        check_crooks(forward, backward)

    check(plan.reverse())
    assert_detects(check, uneven_plan(target, 2).reverse())


def test_reverse_weights_average_to_one_over_z() -> None:
    """Catches a reverse weight of the wrong sign, and an unbiased sum of the wrong end (Jarzynski).

    On a Gaussian path, whose reverse weights have moments.
    """
    target = TARGETS["gaussian"]
    run = run_reverse("gaussian", target.plan(linear_betas(24), 0.9).reverse(), "jarzynski")
    check_means({"Z w": np.exp(run.log_weight + target.log_z)}, 1.0)


@pytest.mark.parametrize("name", TARGETS)
def test_weighted_end_points_have_the_targets_law(name: str) -> None:
    """Catches end points that belong to another beta than the weights, or a lost mode."""
    target = TARGETS[name]
    run = run_forward(name, target.plan(linear_betas(48), 0.9), "end points")
    rng = make_rng("resample", name)
    # rejection sampling keeps rows independent; the few weights above the bound are cut
    weight = np.exp(run.log_weight - np.quantile(run.log_weight, 0.999))
    kept = run.position[rng.random(N_ROWS) < weight]
    assert len(kept) > 1000
    exact = target.sample(rng, 1.0, N_ROWS)
    check_same_law({f"x{i}": (kept[:, i], exact[:, i]) for i in range(target.n_dims)})
    assert_detects(
        check_same_law, {"unweighted start": (kept[:, 0], target.sample(rng, 0.0, N_ROWS)[:, 0])}
    )


def test_constant_in_the_ratio_is_added_to_each_weight() -> None:
    """Catches a constant that enters acceptance, or increments that do not sum to one."""
    plan = uneven_plan(TARGETS["log_gamma"], 45)
    rng = make_rng("constant")
    start = TARGETS["log_gamma"].sample(rng, 0.0, N_ROWS)
    runs = [
        anneal(compiled_block("log_gamma", KERNEL, shift), plan, start, make_rng("constant noise"))
        for shift in (0.0, 137.5)
    ]
    np.testing.assert_allclose(runs[1].log_weight - runs[0].log_weight, 137.5, rtol=1e-10)
    np.testing.assert_allclose(runs[1].position, runs[0].position, atol=1e-9)


class PermutedNoise:
    """The noise of a generator, its rows in another order."""

    def __init__(self, rng: np.random.Generator, order: np.ndarray) -> None:
        self.rng, self.order = rng, order

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.rng.standard_normal(shape)[:, self.order]

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.rng.random(shape)[:, self.order]


def test_permuted_rows_give_permuted_results() -> None:
    """Catches rows that see each other, or a mix-up of axes."""
    plan = uneven_plan(TARGETS["gaussian"], 45)
    rng = make_rng("permutation")
    start, order = TARGETS["gaussian"].sample(rng, 0.0, N_ROWS), rng.permutation(N_ROWS)
    block = compiled_block("gaussian", KERNEL)
    one = anneal(block, plan, start, make_rng("order"))
    other = anneal(block, plan, start[order], PermutedNoise(make_rng("order"), order))
    np.testing.assert_allclose(other.log_weight, one.log_weight[order], atol=1e-10)
    np.testing.assert_allclose(other.position, one.position[order], atol=1e-10)
    np.testing.assert_allclose(other.stage_weight_ess, one.stage_weight_ess, rtol=1e-9)


def run_dead_zones(start: np.ndarray, n_temperatures: int = 45) -> Annealed:
    plan = Plan(linear_betas(n_temperatures), np.full(n_temperatures + 1, 0.7), np.ones((46, 1)))
    return anneal(dead_zone_block(KERNEL), plan, start, make_rng("dead zones"))


def test_rows_without_support_have_weight_zero_and_are_counted() -> None:
    """Catches NaN that spreads, rows lost for good, and a count of rows where moves are meant."""
    start = make_rng("dead start").standard_normal((N_ROWS, 1))
    with np.errstate(invalid="ignore"):  # a bug of its own, see the test below
        run = run_dead_zones(start)
    dead = (start[:, 0] > 1.5) | (start[:, 0] < -1)
    np.testing.assert_array_equal(np.isneginf(run.log_weight), dead)
    assert np.all(np.isfinite(run.log_weight[~dead]))
    assert run.n_nan >= np.sum(start < -1)
    assert np.all((run.position[~dead] <= 1.5) & (run.position[~dead] >= -1))
    assert np.isfinite(run.stage_weight_ess).all()


def test_z_is_unbiased_with_rows_without_support() -> None:
    """Catches dead rows that are dropped from the mean instead of counting as zero."""
    start = make_rng("dead start").standard_normal((N_ROWS, 1))
    with np.errstate(invalid="ignore"):
        weight = np.exp(run_dead_zones(start).log_weight)
    x = np.linspace(-1, 1.5, 20_001)
    z = np.trapezoid(np.exp(-1.5 * x**2), x) / np.sqrt(2 * np.pi)
    check_means({"w / Z": weight / z}, 1.0)
    assert_detects(partial(check_means, expected=1.0), {"alive only": weight[weight > 0] / z})


def test_some_rows_without_support_give_no_numpy_warning() -> None:
    """Catches 0 * -inf in the stage summaries, which the user sees as a RuntimeWarning."""
    run_dead_zones(make_rng("dead start").standard_normal((N_ROWS, 1)))


def test_no_row_with_support_gives_no_numpy_warning() -> None:
    """Catches -inf - (-inf) in the stage summaries when all rows have weight zero."""
    run = run_dead_zones(np.full((N_ROWS, 1), 4.0), n_temperatures=1)
    assert np.all(np.isneginf(run.log_weight))
    run_dead_zones(np.full((N_ROWS, 1), 4.0))


def test_a_last_move_alone_is_of_as_many_rows_as_those_before() -> None:
    """Catches rows that JAX has filled up, handed to NumPy, which makes the last move by itself."""
    pytest.importorskip("jax")
    target, n_temperatures = TARGETS["gaussian"], MOST_BRIEF + 1
    assert n_temperatures % MOVES_PER_BLOCK == 1
    plan, start = target.plan(linear_betas(n_temperatures), 0.9), np.zeros((5, target.n_dims))
    runs = [
        anneal(Block(target.path(), KERNEL, 8, kwargs), plan, start, make_rng("alone"))
        for kwargs in (None, {"mode": "JAX"})
    ]
    np.testing.assert_allclose(runs[0].log_weight, runs[1].log_weight, atol=1e-8)
    np.testing.assert_allclose(runs[0].position, runs[1].position, atol=1e-8)


def test_weight_ess_of_known_weights() -> None:
    """Catches a normalisation that overflows, and 0 / 0 when no row has weight."""
    log_weight = np.array([[0.0, 0.0, -np.inf, -np.inf], [900.0, 900.0, 900.0, 900.0]])
    np.testing.assert_allclose(weight_ess(log_weight), [2.0, 4.0])
    assert weight_ess(np.full(3, -np.inf)) == 0


def test_stage_means_are_weighted_by_the_rows_own_history() -> None:
    """Catches stage means of the wrong weights: at beta 0.5 they estimate that beta's own mean."""
    target = TARGETS["gaussian"]
    run = run_forward("gaussian", target.plan(linear_betas(48), 0.9), "stages")
    exact = PLAIN["gaussian"].log_ratio(target.sample(make_rng("stages"), 0.5, N_ROWS))
    # twice the error of plain draws: weights have an ESS above a quarter
    error = 2 * exact.std() / np.sqrt(N_ROWS)
    assert run.stage_weight_ess[24] > N_ROWS / 4
    assert abs(run.stage_mean_log_ratio[24] - exact.mean()) < 5 * np.hypot(error, error / 2)
    assert np.isnan(run.stage_mean_log_ratio[-1])
    assert run.stage_mean_log_ratio.size == run.stage_weight_ess.size == 49
