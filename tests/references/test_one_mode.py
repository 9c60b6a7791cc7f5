"""Whether normal entries have one mode given the others, and where the density of these peaks."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from support.checks import make_rng
from support.pymc_models import counts

from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.references import nested
from pymc_logz.references.blend import Target
from pymc_logz.references.marginal_peaks import Known, Start, highest_marginal, highest_peak


def begun(model: pm.Model, seed: int) -> Start:
    """Where the nested approximations of a model begin."""
    rng = np.random.default_rng(seed)
    prepared = prepare(model, rng, sum_out=None)
    start = highest_marginal(Target(prepared, block_for(prepared, HaisSettings(), None)), rng)
    assert start is not None
    return start


def explained_twice(d: int = 20) -> pm.Model:
    """Values seen with a noise of 0.5 or of 2, all of them with the same, and far from zero."""
    y = 6.0 * np.ones(d) / np.sqrt(d)
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=d)
        logs = [pm.logp(pm.Normal.dist(x, sd), y).sum() for sd in (0.5, 2.0)]
        pm.Potential("y", pt.logaddexp(*logs))
    return model


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_an_explanation_by_small_noise_is_a_second_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches lines from draws of the prior alone, which pass a narrow mode far from all of them.

    log Z of 20 values with a noise of 0.5 or 2 was 0.49 nats low with `ok`.
    """
    model = explained_twice()
    for seed in range(3):
        assert not nested.has_one_mode(begun(model, seed), np.random.default_rng(seed))
    monkeypatch.setattr(nested, "towards_data", lambda block, rows, far: rows)
    assert nested.has_one_mode(begun(model, 0), np.random.default_rng(0))


def small_or_large(d: int = 80) -> pm.Model:
    """Effects whose common spread is small, or large in one of fifty; of Z a fifth."""
    y = 6.55 * np.ones(d) / np.sqrt(d)
    with pm.Model() as model:
        large = pm.Bernoulli("large", 0.02)
        effect = pm.Normal("effect", 0, pt.switch(large, 1.0, 0.1), shape=d)
        pm.Normal("y", effect, 0.5, observed=y)
    return model


def test_an_explanation_far_from_nearly_all_of_the_prior_is_a_second_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches steps up the likelihood that stop short of it: log Z was 0.28 nats low with `ok`."""
    start = begun(small_or_large(), 0)
    near = np.linalg.norm(start.prior, axis=1) < 3
    start = start._replace(prior=start.prior[near])
    assert not nested.has_one_mode(start, np.random.default_rng(0))
    monkeypatch.setattr(nested, "towards_data", lambda block, rows, far: rows)
    assert nested.has_one_mode(start, np.random.default_rng(0))


def two_modes() -> pm.Model:
    """A coefficient at 3 or at -3, among eighteen that are normal."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=18)
        pm.Normal("y", x[1:], 1, observed=np.linspace(-1, 1, 17))
        at = [-0.5 * (x[0] - place) ** 2 / 0.2**2 for place in (3, -3)]
        pm.Potential("two", pt.logaddexp(*at))
    return model


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_other_conditional_modes_are_seen() -> None:
    """Catches a reference that has one of two modes: the run from it would miss half of Z."""
    model = two_modes()
    for seed in range(3):
        assert not nested.has_one_mode(begun(model, seed), np.random.default_rng(seed))


def test_modes_close_together_under_a_vague_prior_are_seen() -> None:
    """Catches places on a line that are further apart than two modes are."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1000, shape=3)
        pm.NormalMixture("y", [0.5, 0.5], pt.stack([x[0], x[0] + 8]), [1, 1], observed=[8.0])
        pm.Normal("z", x[1:], 1, observed=np.zeros(2))
    for seed in range(3):
        assert not nested.has_one_mode(begun(model, seed), np.random.default_rng(seed))


def test_a_regression_has_one_mode() -> None:
    """Catches a rounding error taken for a slope that rises."""
    x = make_rng("one mode").normal(size=(40, 6))
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1)
        beta = pm.Normal("beta", 0, spread, shape=6)
        pm.Bernoulli("y", logit_p=x @ beta, observed=(x[:, 0] > 0).astype(int))
    for seed in range(5):
        assert nested.has_one_mode(begun(model, seed), np.random.default_rng(seed))


def test_the_width_of_a_peak_is_known_wherever_the_climb_begins() -> None:
    """Catches a width cut to a third where a climb begins close to the peak, or no peak at all."""
    start = begun(counts(), 1)
    parts, peak = start.parts, start.peaks[0]
    for apart in (-2.0, -0.5, 0.0, 0.1, 1.0):
        outer = peak.outer[None] + apart * np.diag(peak.factor)
        seen = parts.modes(outer, peak.inner[None], peak.scale)
        found = highest_peak(parts, outer, seen)
        assert found is not None
        np.testing.assert_allclose(found.outer, peak.outer, atol=0.5 * peak.factor.max())
        np.testing.assert_allclose(found.factor, peak.factor, rtol=0.3)


@pytest.mark.parametrize("n", [1, 3])
def test_the_nearest_of_settings_that_are_the_same(n: int) -> None:
    """Catches an IndexError: in units of their spread all others are infinitely far away."""
    known = Known(np.full((n, 2), 0.5), np.arange(n)[:, None])
    assert known.nearest(np.array([[0.5, 0.5], [3.0, -1e9]])).shape == (2, 1)
