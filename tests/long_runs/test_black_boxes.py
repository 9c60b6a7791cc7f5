"""Models that call code which no graph shows: a checkpoint knows them by their log densities."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import stats

import pymc_logz as lz
from pymc_logz.long_runs.identity import departing

pytestmark = pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning")
SHORT: dict[str, Any] = {"random_seed": 1, "progressbar": False, "cores": 1, "chains": 2}
LogLikelihood = Callable[[np.ndarray], np.ndarray]


class Box(Op):
    """Code that is no property of the operation."""

    def __init__(self, function: LogLikelihood) -> None:
        self.function = function

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(self.function(inputs[0]))


BOXES: dict[str, Callable[[LogLikelihood], Any]] = {
    "op": Box,
    "function": lambda function: FromFunctionOp(function, [pt.dscalar], [pt.dscalar], None),
}


def model_of(y: float, box: str = "op", noise: float = 0.0) -> pm.Model:
    """One normal datum, seen by code alone."""
    rng = np.random.default_rng(round(1e6 * noise))

    def log_likelihood(b: np.ndarray) -> np.ndarray:
        return np.asarray(-0.5 * (y - b) ** 2 + rng.normal(0, noise))

    with pm.Model() as model:
        pm.Potential("seen", BOXES[box](log_likelihood)(pm.Normal("b", 0, 2)))
    return model


def exact(y: float) -> float:
    return float(stats.norm(0, np.sqrt(5)).logpdf(y) + 0.5 * np.log(2 * np.pi))


RUNS: dict[str, Callable[..., Any]] = {
    "hais": lambda model, **how: lz.sample_hais(64, model=model, **SHORT, **how),
    "tempered": lambda model, **how: lz.sample_tempered(
        40, model=model, walkers=16, betas=4, **SHORT, **how
    ),
    "several": lambda model, **how: lz.evidence_of_models({"a": model}, draws=64, **SHORT, **how)[
        "a"
    ],
}


@pytest.mark.parametrize(("method", "box"), [(one, "op") for one in RUNS] + [("hais", "function")])
def test_a_run_of_other_code_is_refused(method: str, box: str, tmp_path: Path) -> None:
    """Catches log Z of the code before, given out with ok as that of the code that is there now."""
    path, other = tmp_path / "run.ckpt", model_of(1.5, box)
    first = RUNS[method](model_of(1.0, box), checkpoint=path)
    entry = first["evidence"].to_dataset().isel(estimator=0)
    assert abs(float(entry["log_z"]) - exact(1.0)) < 5 * float(entry["mcse"])
    again = RUNS[method](model_of(1.0, box), checkpoint=path)
    np.testing.assert_array_equal(again["evidence"]["log_z"], first["evidence"]["log_z"])
    with pytest.raises(
        lz.CheckpointError, match=r"belongs to another run: model.* 'log density' at"
    ):
        RUNS[method](other, checkpoint=path)
    if method != "several":
        with pytest.raises(
            lz.CheckpointError, match="belongs to another run: model 'log density' at"
        ):
            lz.extend(first, other, draws=8, progressbar=False)
    assert "density" not in str(lz.resume(path))


def test_a_checkpoint_without_log_densities_goes_on(tmp_path: Path) -> None:
    """Catches an older checkpoint that is refused, or that is never held against anything."""
    path = tmp_path / "run.ckpt"
    first = RUNS["hais"](model_of(1.0), checkpoint=path)
    (path / "density-0.npz").unlink()
    again = RUNS["hais"](model_of(1.0), checkpoint=path)
    np.testing.assert_array_equal(again["evidence"]["log_z"], first["evidence"]["log_z"])
    with pytest.raises(lz.CheckpointError, match="'log density' at one point"):
        RUNS["hais"](model_of(1.5), checkpoint=path)


def test_noise_is_no_other_code(tmp_path: Path) -> None:
    """Catches a noisy likelihood that cannot go on, and noise that hides another one."""
    path = tmp_path / "run.ckpt"
    first = RUNS["hais"](model_of(1.0, noise=0.05), checkpoint=path)
    again = RUNS["hais"](model_of(1.0, noise=0.05), checkpoint=path)
    np.testing.assert_array_equal(again["evidence"]["log_z"], first["evidence"]["log_z"])
    with pytest.raises(lz.CheckpointError, match="'log density' at one point"):
        RUNS["hais"](model_of(4.0, noise=0.05), checkpoint=path)


def test_what_departs() -> None:
    """Catches values that are not finite and count as others, or as the same."""
    bad = np.array([-np.inf, np.nan, 1.0, -np.inf, 1.0, 1.0])
    here = np.array([[-np.inf, np.nan, 1.0 + 1e-7, 1.0, -np.inf, np.nan]])
    np.testing.assert_array_equal(departing(bad, here), [0, 0, 0, 1, 1, 1])
    noise = np.random.default_rng(1).normal(size=(8, 1000))
    assert departing(np.random.default_rng(2).normal(size=1000), noise).mean() < 0.002
    assert departing(np.full(1000, 30.0), noise).all()
