"""Plans: blends whose weights are too uneven, and what is made of them."""

import numpy as np
import pymc as pm
import pytest
from generated import generate
from scipy.stats import norm

import pymc_logz as lz
from pymc_logz.estimators import LogZEstimate
from pymc_logz.loop.planning import Planner
from pymc_logz.loop.search import Search


def test_a_path_that_finds_less_than_blends_that_were_given_up_disagrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Would catch a path from the prior that is a nat below blends, and ``ok``."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, 1.0, observed=1.0)
    exact = float(norm.logpdf(1.0, 0, np.sqrt(2)))

    def tried(planner: Planner, _: Search) -> None:
        planner.given_up.append(LogZEstimate("hais", exact + 1, 0.05, 200.0, 0.9, "high_khat"))

    monkeypatch.setattr(Planner, "tried", tried)
    monkeypatch.setattr(Planner, "nested", lambda *_, **__: [])
    with pytest.warns(lz.EvidenceWarning, match="disagree"):
        tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "disagrees"


@pytest.mark.slow
def test_even_weights_with_a_heavy_tail_are_not_left_for_a_path() -> None:
    """Would catch a blend that its k-hat rules out: the path from the prior was 1.2 nats low."""
    case = generate("latent_exponentials", 663614581)
    tree = lz.sample_hais(model=case.build(), random_seed=1004, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "ok"
    assert abs(float(found["log_z"]) - case.log_z) < max(4 * float(found["mcse"]), 0.02)
