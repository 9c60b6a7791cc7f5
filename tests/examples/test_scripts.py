"""Examples and benchmarks: each can be imported, and the parts that compute are right in small."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from support.checks import make_rng
from support.scripts import ROOT, load

from pymc_logz.energies import random_filters, student_t_experts
from pymc_logz.estimators import importance_log_z

SCRIPTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("examples/*/*.py", "benchmarks/*.py")
    for path in ROOT.glob(pattern)
)
SHARED = {f"examples/papers/{name}.py" for name in ("digits", "measured", "units")}
"""What scripts beside them import."""
N_DIMS = 3


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_imports_and_has_a_main(script: str) -> None:
    """Catches a public name that an example still uses after it is gone."""
    module = load(script)
    assert script in SHARED or callable(module.main)


def test_temperatures_needed_follow_a_power_law() -> None:
    """Catches a swapped axis or a wrong slope in the example's fit."""
    experts = load("examples/annealing/products_of_experts.py")
    temperatures = np.array([100, 200, 400, 800])
    rmse = 3.0 * temperatures**-0.7
    errors = rmse[:, None] * np.array([1.0, -1.0, 1.0, -1.0])
    needed = (3.0 / 0.05) ** (1 / 0.7)
    assert experts.temperatures_for(0.05, temperatures, errors) == pytest.approx(needed)
    several = np.stack([errors, 2 * errors])
    assert experts.temperatures_for(0.05, temperatures, several) == pytest.approx(
        [needed, needed * 2 ** (1 / 0.7)]
    )


@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_products_of_experts_in_small(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Catches errors measured from another log Z than the exact one, and a table that breaks."""
    experts = load("examples/annealing/products_of_experts.py")
    methods = {
        name: replace(experts.METHODS[name], temperatures=np.array([8, 64]), step_sizes=(0.5, 0.9))
        for name in ("HAIS", "random walk")
    }
    monkeypatch.setattr(experts, "METHODS", methods)
    monkeypatch.setattr(experts, "N_BOOTSTRAP", 20)
    energy = experts.experts(N_DIMS)["Laplace"]
    rng = make_rng("products of experts")
    curves, times = experts.study(energy, rng, 4)
    for name, curve in curves.items():
        finest = curve.errors[-1]
        assert abs(finest.mean()) < 5 * finest.std(ddof=1) / np.sqrt(finest.size) + 0.05, name
        assert curve.step_size in methods[name].step_sizes
        assert times[name] > 0
    rmse = experts.compare(curves, rng)
    experts.report("Laplace", curves, rmse, times)
    assert "random walk" in capsys.readouterr().out
    figure, axes = plt.subplots(1, 2)
    experts.draw(axes, "Laplace", energy, curves, rmse)
    plt.close(figure)


def test_the_papers_algorithm_in_plain_numpy_is_right() -> None:
    """Catches the paper's misprint, wrong by 1.2 nats here, and weights at a wrong beta."""
    benchmark = load("benchmarks/long_annealing.py")
    filters = random_filters(1, N_DIMS) + np.eye(N_DIMS)
    exponents = np.array([2.0, 3.0, 5.0])
    exact = student_t_experts(filters, exponents).log_z
    rng = make_rng("plain hais")
    # few temperatures: an error of the move would not be hidden by a fine ladder
    log_weight = benchmark.paper_hais(filters, exponents, 20, 20_000, 0.6, rng)
    estimate = importance_log_z(log_weight)
    assert estimate.mcse < 0.03
    assert abs(estimate.log_z - exact) < 4 * estimate.mcse


def test_rts_does_not_mind_the_number_of_temperatures() -> None:
    """Catches draws of another temperature, and errors measured from another log Z."""
    example = load("examples/tempering/number_of_temperatures.py")
    table = example.study((8, 128), 40, make_rng("temperatures"))
    assert np.all(table["RTS"] < 0.12)
    assert table["RTS"][128] < 1.6 * table["RTS"][8]
    assert table["TS"][128] > 2 * table["TS"][8]
    # the error of the rule with few temperatures, that of few draws at each with many
    assert table["TI"][8] > 2 * table["RTS"][8]
    assert table["TI"][128] > 1.4 * table["RTS"][128]
    assert table["TI-RB"][128] == pytest.approx(table["RTS"][128], rel=0.1)
    figure = example.draw(table)
    plt.close(figure)
