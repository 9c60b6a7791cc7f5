"""Annealing through machines on the way, and from one to another: exact log Z and ratios."""

import numpy as np
import pytest
import xarray as xr
from support.checks import assert_detects, check_means, make_rng
from support.small_machines import KNOWN, MACHINES, waves

import pymc_logz as lz
from pymc_logz.bits.paths import path_between
from pymc_logz.energies import BinaryEnergy, bernoulli_rbm, boltzmann_machine, moment_averaged
from pymc_logz.kernels import BlockGibbs
from pymc_logz.runners.block import Block

QUICK = {"draws": 256, "chains": 2, "random_seed": 1, "progressbar": False}
ROW = np.arange(7)
OTHERS = {
    "rbm": MACHINES["rbm"].at(-0.5 * MACHINES["rbm"].weights, np.ones(5), np.zeros(4)),  # type: ignore[attr-defined]
    "all_to_all": boltzmann_machine(
        0.4 * np.sin(np.add.outer(ROW, ROW)) * (1 - np.eye(7)), 0.2 * np.cos(ROW)
    ),
}


def ratio_of(model: BinaryEnergy, other: BinaryEnergy) -> tuple[float, float, xr.DataTree]:
    """Log ratio of two machines and its error."""
    tree = lz.sample_hais(model=model, reference=other, **QUICK)
    factor = tree["bayes_factor"]
    assert str(factor["status"].item()) == "ok"
    return float(factor["log_bayes_factor"]), float(factor["log_bayes_factor_mcse"]), tree


@pytest.mark.parametrize("name", OTHERS)
def test_ratio_of_two_machines(name: str) -> None:
    """Catches couplings of one machine with biases of the other, in both directions."""
    one, other = MACHINES[name], OTHERS[name]
    log_z = [float(machine.log_z_at(1.0)[0]) for machine in (one, other)]
    there, error, tree = ratio_of(one, other)
    assert abs(there - (log_z[0] - log_z[1])) < 4 * error < 0.4
    back, error_back, _ = ratio_of(other, one)
    assert abs(there + back) < 4 * np.hypot(error, error_back)
    entry = tree["evidence"].isel(estimator=0)
    assert abs(float(entry["log_z"]) - log_z[0]) < 4 * float(entry["mcse"])
    assert abs(float(tree["bayes_factor"]["log_z_other"]) - log_z[1]) < 0.3


class ForgetfulGibbs(BlockGibbs):
    """A broken sweep: at every beta it draws the sites of the second machine."""

    def step(self, path, state, move, noise):  # type: ignore[no-untyped-def]
        return super().step(path, state, move._replace(beta=0.0 * move.beta + 1.0), noise)


def check_kept(kernel: BlockGibbs) -> None:
    """Fail unless exact draws at beta = 0.4 between two machines keep their means."""
    one, other = MACHINES["rbm"], OTHERS["rbm"]
    mixed = bernoulli_rbm(
        *(0.6 * a + 0.4 * b for a, b in zip(_parts(other), _parts(one), strict=True))
    )
    rng, n = make_rng("between machines"), 20_000
    rows, fresh = (mixed.sample_rows(rng, 1.0, n) for _ in range(2))
    path = path_between(other.path, one.path, rows)
    block = Block(path, kernel, n)
    state = block.initial_state(rows)
    moves = block._still_moves(4)._replace(beta=np.full(4, 0.4), step_size=np.array([0, 1, 1, 1.0]))
    end = np.asarray(block.run(state, moves, rng)[0].position)
    check_means({f"bit {j}": end[:, j] - fresh[:, j].mean() for j in range(end.shape[1])})


def _parts(rbm: BinaryEnergy) -> list[np.ndarray]:
    return [rbm.weights, rbm.visible_bias, rbm.hidden_bias]  # type: ignore[attr-defined]


def test_sweeps_keep_draws_between_machines() -> None:
    """Catches log odds that are not those of the machine in between; and a broken control."""
    check_kept(BlockGibbs())
    assert_detects(check_kept, ForgetfulGibbs())


def test_moments_are_averages() -> None:
    """Catches a machine of averaged parameters, which has other moments."""
    weights, *biases = waves(5, 4, 0.3, 0.4)
    rbm = bernoulli_rbm(3 * weights, *biases)
    [machine] = moment_averaged(rbm, 1, n_updates=2000, n_chains=200, random_seed=1)
    rng = make_rng("moments")

    def product(energy: BinaryEnergy, beta: float) -> np.ndarray:
        visible, hidden = np.split(energy.sample_rows(rng, beta, 50_000), [5], axis=1)
        return np.asarray(visible.T @ hidden / 50_000)

    wanted = (0.25 + product(rbm, 1.0)) / 2
    far = np.abs(product(rbm, 0.5) - wanted).max()
    assert np.abs(product(machine, 1.0) - wanted).max() < min(0.03, far / 2)


def test_log_z_through_averaged_moments() -> None:
    """Catches weights of a leg that is left out."""
    machines = moment_averaged(KNOWN, 2, n_updates=200, random_seed=1)
    tree = lz.sample_hais(model=KNOWN, reference=machines, betas=40, **QUICK)
    entry = tree["evidence"].isel(estimator=0)
    assert str(entry["status"].item()) == "ok"
    assert abs(float(entry["log_z"]) - KNOWN.log_z) < 4 * float(entry["mcse"]) < 0.6
    assert tree["evidence"].attrs["n_temperatures"] == 120


def test_machines_of_other_bits_are_refused() -> None:
    """Catches rows that are read as those of other bits."""
    with pytest.raises(ValueError, match=r"blocks of \(5, 4\) bits.*\(12, 8\)"):
        lz.sample_hais(model=KNOWN, reference=MACHINES["rbm"], progressbar=False)
    with pytest.raises(ValueError, match="direction='both' does not apply"):
        lz.sample_hais(model=KNOWN, reference=KNOWN, direction="both")
