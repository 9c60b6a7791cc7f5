"""GaussianWalk: leaves the posterior as it is, forgets the chain before, is what PyMC expects."""

from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.optimization import freeze_model
from support.checks import assert_detects, check_means, check_same_law, make_rng
from support.step_chains import FAST, QUIET, assert_state_round_trip, same, skewed_model, walk

from pymc_logz.energies import poisson_gamma
from pymc_logz.errors import DiscreteVariableError
from pymc_logz.step_methods.gaussian_walk import GaussianWalk

ENERGY = poisson_gamma()
N_DRAWS = 4_000


@cache
def model() -> pm.Model:
    """The skewed rate of `poisson_gamma`; frozen models compile once."""
    return freeze_model(ENERGY.model)


def make(cls: type[GaussianWalk] = GaussianWalk, **kwargs: Any) -> GaussianWalk:
    with model():
        return cls(**kwargs, compile_kwargs=FAST)


def exact_draws(label: str) -> np.ndarray:
    """Log rates from the exact posterior, shape (n,)."""
    assert ENERGY.sample_posterior is not None
    return np.log(ENERGY.sample_posterior(make_rng("walk", label), N_DRAWS)["rate"])


def check_invariant(step: GaussianWalk) -> None:
    """Fail unless exact draws, each moved once, have the law of exact draws."""
    step.setup_chain(make_rng("walk", type(step).__name__), 0, N_DRAWS)
    before, name = exact_draws("before"), "rate_log__"
    after = np.array([step.step({name: np.array(value)})[0][name] for value in before])
    assert np.mean(after != before) > 0.1, "nothing moves"
    functions = {"mean": np.tanh, "square": lambda x: np.tanh(x) ** 2}
    check_means({what: f(after) - f(before) for what, f in functions.items()})
    check_same_law({"log rate": (after, exact_draws("fresh"))})


class AlwaysAccepts(GaussianWalk):
    """Broken on purpose: without the Metropolis decision."""

    def _acceptance_rate(self, here: float, there: float) -> float:
        return 1.0


def test_exact_draws_keep_their_law() -> None:
    """Catches a wrong ratio, and a density without the Jacobian of its transform."""
    check_invariant(make(scale=0.8))


def test_a_step_that_accepts_all_is_found() -> None:
    """Positive control: the same check fails without the decision."""
    assert_detects(check_invariant, make(AlwaysAccepts, scale=0.8))


def test_each_chain_starts_afresh() -> None:
    """Catches a scale, or an end of tuning, that the chain before left behind."""
    step = make()
    first = walk(step, model(), 50, tune=50)
    assert (step.tune, step.scale != step.first_scale) == (False, True)
    np.testing.assert_array_equal(
        walk(step, model(), 50, tune=50)["rate_log__"], first["rate_log__"]
    )


def test_a_stored_state_is_all_that_a_chain_needs() -> None:
    """Catches an attribute that draws change and the state does not name."""
    assert_state_round_trip(make(), make(), model())


def test_tuning_aims_at_the_acceptance_rate() -> None:
    """Catches a sign in the adaptation, and one that goes on after tuning."""
    step = make(scale=30.0)
    walk(step, model(), 10, tune=2_000)
    scale, rates = step.scale, []
    point = model().initial_point(0)
    for _ in range(2_000):
        point, [statistics] = step.step(point)
        rates.append(statistics["mean_tree_accept"])
    assert abs(np.mean(rates) - step.target_accept) < 0.1
    assert step.scale == scale


def test_in_pm_sample() -> None:
    """Catches a statistic that is declared and not given, and draws that depend on the past."""
    with model():
        step = GaussianWalk(compile_kwargs=FAST)
        one, other = (
            pm.sample(draws=30, tune=20, chains=2, cores=1, step=step, random_seed=3, **QUIET)
            for _ in range(2)
        )
    assert same(one, other)
    statistics = one["sample_stats"]
    assert {"acceptance_rate", "accepted", "scale", "lp"} <= set(statistics)
    assert set(np.unique(statistics["accepted"])) == {0.0, 1.0}
    assert np.ptp(statistics["lp"].to_numpy()) > 0


def test_points_keep_the_order_and_types_of_the_model() -> None:
    """Catches values that PyMC would record under the name of another variable."""
    with skewed_model() as other:
        step = GaussianWalk([other["s"], other["b"]], compile_kwargs=FAST)
    point = other.initial_point(0)
    new, _ = step.step(point)
    assert list(new) == list(point)
    for name, value in point.items():
        assert isinstance(new[name], np.ndarray)
        assert (new[name].dtype, new[name].shape) == (value.dtype, value.shape)


def test_wrong_arguments() -> None:
    """Catches a jump of no length, and a discrete variable moved by a normal one."""
    with pytest.raises(ValueError, match=r"scale=0.*positive"):
        make(scale=0)
    with pm.Model() as discrete:
        pm.Poisson("k", 3)
    with pytest.raises(DiscreteVariableError, match="'k'"):
        GaussianWalk([discrete["k"]], model=discrete)
