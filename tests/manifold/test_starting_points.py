"""Starts of chains: on the level set, in each mode, not in corners of hardly any mass."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from support.level_sets import unequal

from pymc_logz.manifold import missed_modes
from pymc_logz.manifold.generator_form import ExactObservation
from pymc_logz.manifold.missed_modes import find_start
from pymc_logz.manifold.model import ConstrainedModel, make_constrained_model

N_STARTS = 60


def made(output, observed) -> ConstrainedModel:
    """Model of two normal inputs."""
    with pm.Model() as model:
        u = pm.Normal("u", shape=2)
        ExactObservation("y", output(u), observed)
    return make_constrained_model(model, scale=np.ones(2))


def starts(model: ConstrainedModel) -> np.ndarray:
    """Starts from as many seeds, shape (n, 2)."""
    return np.array([find_start(model, np.random.default_rng(seed)) for seed in range(N_STARTS)])


def test_modes_of_like_mass_each_have_their_starts():
    """The broad mode has about half the mass."""
    case = unequal()
    u = starts(made(lambda u: pt.exp(u[0]) - u[0] + np.float64(0.5) * u[1], 2.0))
    np.testing.assert_allclose(u[:, 1], case.second(u[:, 0]), atol=1e-7)
    assert case.mean(lambda u: u[:, 0] < 0) == pytest.approx(0.5, abs=0.1)
    assert 0.25 < np.mean(u[:, 0] < 0) < 0.75


def test_one_of_four_is_drawn_in_proportion_to_its_density(monkeypatch):
    """Would catch the densest one, the first one, and one at random."""
    model = made(lambda u: u[0] + u[1], 0.0)
    ends = itertools.cycle([(np.log(weight), np.array([weight])) for weight in (1, 2, 3, 6)])
    monkeypatch.setattr(missed_modes, "moved_on", lambda model, position, rng: next(ends))
    rng = np.random.default_rng(1)
    found = np.array([find_start(model, rng)[0] for _ in range(400)])
    for weight in (1, 2, 3, 6):
        share = weight / 12
        assert abs(np.mean(found == weight) - share) < 4 * np.sqrt(share * (1 - share) / 400)


def test_a_mode_of_hardly_any_mass_has_none():
    """An output that folds back: one search in six ends 20 nats lower, for good."""
    model = made(lambda u: u[0] * pt.exp(-u[0]) + np.float64(0.002) * u[1], 0.01)
    ends = [model.find_point(np.random.default_rng(seed)).position[0] for seed in range(N_STARTS)]
    assert np.mean(np.array(ends) > 3.0) > 0.05
    assert np.all(starts(model)[:, 0] < 3.0)
