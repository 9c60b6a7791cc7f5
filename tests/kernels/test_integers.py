"""Kernels of whole numbers against exact laws, with broken ones as controls."""

import numpy as np
import pymc as pm
import pytest
from support.checks import assert_detects
from support.integer_targets import (
    LABELS,
    SITES,
    TIED_SITES,
    HotGibbs,
    TogetherGibbs,
    UpwardWalk,
    check_count,
    check_labels,
    check_mixed,
    check_table,
    check_tied,
    mixed_path,
    table_path,
)

import pymc_logz as lz
from pymc_logz.kernels import Compose, Gibbs, Hamiltonian, IntegerWalk, RandomWalk
from pymc_logz.kernels.compose import Part, for_variables
from pymc_logz.paths.geometric import Site
from pymc_logz.runners.block import Block

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
MIXED = for_variables(Hamiltonian(), ("label", "x"), (Site(0, 0, 2),)).resolved(2)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("kernel", [Gibbs(SITES), IntegerWalk(2, SITES)], ids=["gibbs", "walk"])
def test_invariance(kernel: Gibbs | IntegerWalk, beta: float, rng: np.random.Generator) -> None:
    """Catches a wrong score, a value that is left out, a jump that is not symmetric."""
    check_table(kernel, beta, rng)


@pytest.mark.parametrize("broken", [HotGibbs, TogetherGibbs])
def test_broken_kernels_are_found(broken: type[Gibbs], rng: np.random.Generator) -> None:
    """Positive controls: scored at the wrong beta, and dependent entries drawn at once."""
    assert_detects(lambda kernel: check_table(kernel, 1.0, rng), broken(SITES))


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_counts_with_a_fixed_sum(beta: float, rng: np.random.Generator) -> None:
    """Catches a partner of another sum, and a pair that is likelier one way."""
    check_tied(IntegerWalk(2, TIED_SITES), beta, rng)


def test_counts_that_only_take_are_found(rng: np.random.Generator) -> None:
    """Positive control."""
    assert_detects(lambda kernel: check_tied(kernel, 1.0, rng), UpwardWalk(2, TIED_SITES))


def test_one_of_a_fixed_sum_cannot_be_drawn_by_itself() -> None:
    """Catches a kernel that never moves."""
    owners = ("k", "k", "k", "label")
    with pytest.raises(ValueError, match=r"those of \['k'\] have a fixed sum"):
        for_variables(Compose({"k": Gibbs()}), owners, TIED_SITES)
    made = for_variables(Hamiltonian(), owners, TIED_SITES)
    assert isinstance(made, Compose)
    kernels = {part.names: type(part.kernel).__name__ for part in made.parts}
    assert kernels == {("k",): "IntegerWalk", ("label",): "Gibbs"}


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_independent_entries_move_at_once(beta: float, rng: np.random.Generator) -> None:
    """Catches a value that does not exist, and densities that are not those of where rows are."""
    check_labels(Gibbs(LABELS, together=True), beta, rng)


def test_independent_entries_at_the_wrong_beta_are_found(rng: np.random.Generator) -> None:
    """Positive control."""
    kernel = HotGibbs(LABELS, together=True)
    assert_detects(lambda broken: check_labels(broken, 1.0, rng), kernel)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_walk_on_a_number_without_an_end(beta: float, rng: np.random.Generator) -> None:
    """Catches a bound that is not met, or a jump that is likelier one way."""
    check_count(IntegerWalk(sites=(Site(0, 0, None),)), beta, rng)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_invariance_of_a_composition(beta: float, rng: np.random.Generator) -> None:
    """Catches gradients of another label than the present one, or a label that a leapfrog moves."""
    check_mixed(MIXED, beta, rng)


def test_a_composition_with_a_broken_part_is_found(rng: np.random.Generator) -> None:
    """Positive control."""
    parts = (MIXED.parts[0], Part(("label",), HotGibbs((Site(0, 0, 2),)), (0,)))
    assert_detects(lambda kernel: check_mixed(kernel, 1.0, rng), Compose(parts))


def test_a_step_of_size_zero_stays_and_evaluates() -> None:
    """Catches a whole number that moves where rows are only looked at."""
    for path, kernel in ((table_path(), Gibbs(SITES)), (mixed_path(), MIXED)):
        rows = path.sample_reference(np.random.default_rng(1), 50)
        block = Block(path, kernel, 50)
        state, trace = block.run(block.initial_state(rows), block._still_moves(1), None)
        np.testing.assert_array_equal(state.position, rows)
        assert np.isfinite(trace.log_ratio).all()
        np.testing.assert_array_equal(block.evaluated(rows).log_ratio, trace.log_ratio[0])


def test_gradients_are_those_of_the_end() -> None:
    """Catches stale gradients after a whole number has moved."""
    path = mixed_path()
    block = Block(path, MIXED, 64)
    state = block.initial_state(path.sample_reference(np.random.default_rng(1), 64))
    moves = block._still_moves(4)._replace(beta=np.ones(4), step_size=np.array([0, 1, 1, 1.0]))
    state, _ = block.run(state, moves, np.random.default_rng(2))
    again = block.evaluated(np.asarray(state.position))
    for one, other in zip(state.evaluation, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert np.all(np.asarray(state.evaluation.grad_log_ratio)[:, 0] == 0.0)


def model() -> pm.Model:
    """A label, a count and two continuous variables."""
    with pm.Model() as made:
        label = pm.Bernoulli("label", 0.3)
        count = pm.Poisson("count", 3.0)
        a, b = pm.Normal("a"), pm.Normal("b", shape=2)
        pm.Normal("y", a + b.sum() + label + count, 1.0, observed=2.0)
    return made


def parts_of(kernel: object) -> dict[tuple[str, ...], str]:
    """Kernels by the variables that they move in a model."""
    owners = ("label", "count", "a", "b", "b")
    made = for_variables(kernel, owners, (Site(0, 0, 1), Site(1, 0, None)))  # type: ignore[arg-type]
    assert isinstance(made, Compose)
    return {part.names: type(part.kernel).__name__ for part in made.parts}


def test_who_moves_what_by_default() -> None:
    """Catches a variable that nothing moves, or that two kernels do."""
    default = {("label",): "Gibbs", ("count",): "IntegerWalk"}
    assert parts_of(RandomWalk()) == {("a", "b"): "RandomWalk", **default}
    assert parts_of(Compose({"b": RandomWalk()})) == {
        ("a",): "Hamiltonian",
        ("b",): "RandomWalk",
        **default,
    }
    assert parts_of(Compose({("label", "count"): IntegerWalk(7)})) == {
        ("a", "b"): "Hamiltonian",
        ("label", "count"): "IntegerWalk",
    }


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Compose({"c": RandomWalk()}), r"names \['c'\], but the free variables are"),
        (Compose({"label": RandomWalk()}), r"\['label'\] are discrete: give them Gibbs"),
        (Compose({"a": Gibbs()}), r"\['a'\] are continuous: give them another"),
        (Compose({"label": Gibbs(together=True)}), r"which the model does not show to be indep"),
        (Compose({"count": Gibbs()}), r"\['count'\] have no end that is known: use IntegerWalk"),
    ],
)
def test_what_cannot_be_composed_is_said(kernel: Compose, message: str) -> None:
    """Catches a kernel that would move nothing, or the wrong thing, without a word."""
    with pytest.raises(ValueError, match=message):
        lz.sample_hais(model=model(), kernel=kernel, sum_out=False, progressbar=False)


def test_names_are_checked_at_once() -> None:
    """Catches a variable with two kernels, and a composition of none."""
    with pytest.raises(ValueError, match=r"names \['a'\] more than once"):
        Compose({"a": RandomWalk(), ("a", "b"): Hamiltonian()})
    with pytest.raises(ValueError, match="parts is empty"):
        Compose({})
