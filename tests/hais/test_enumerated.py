"""Models of whole numbers alone: exact log Z and draws, wherever they are asked for."""

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.special import logsumexp
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz import energies

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:the model has potentials"),
]


@cache
def coins() -> pm.Model:
    """Coins of one of three kinds, of which pairs that lie next to each other tend to agree."""
    with pm.Model() as model:
        kind = pm.DiscreteUniform("kind", 1, 3)
        coin = pm.Bernoulli("coin", kind / 4, shape=6)
        pm.Potential("alike", 0.4 * (coin[1:] * coin[:-1]).sum())
        pm.Binomial("seen", n=6, p=0.2 + 0.1 * coin, observed=[3, 1, 0, 2, 4, 2])
    return model


@cache
def exact() -> tuple[float, np.ndarray]:
    """Log Z and the law of the kind, by a loop over all values."""
    density = coins().compile_logp(mode="FAST_COMPILE")
    points = product((1, 2, 3), product((0, 1), repeat=6))
    log_p = [float(density({"kind": kind, "coin": np.array(coin)})) for kind, coin in points]
    of_kind = logsumexp(np.reshape(log_p, (3, -1)), axis=1)
    log_z = float(logsumexp(of_kind))
    return log_z, np.exp(of_kind - log_z)


CALLS: dict[str, Callable[..., xr.DataTree]] = {
    "hais": lambda **kwargs: lz.sample_hais(model=coins(), sum_out=True, **kwargs),
    "evidence": lambda **kwargs: lz.evidence(coins(), **kwargs),
}


@cache
def run_of(call: str, seed: int) -> xr.DataTree:
    """The tree that a call makes: not to be changed."""
    return CALLS[call](random_seed=seed, progressbar=False)


@pytest.mark.parametrize("call", CALLS)
def test_log_z_and_draws_are_exact(call: str, tmp_path: Path) -> None:
    """Catches a value that is left out, draws of another law, and a tree that cannot be kept."""
    tree = run_of(call, 1)
    log_z, of_kind = exact()
    found = tree["evidence"]
    assert found["estimator"].values.tolist() == ["exact"]
    assert float(found["log_z"][0]) == pytest.approx(log_z, abs=1e-9)
    assert models.log_z_of(tree)[1:] == (0.0, "ok")
    kind = tree["posterior"]["kind"].to_numpy().ravel()
    share = np.bincount(kind, minlength=4)[1:] / kind.size
    assert np.all(np.abs(share - of_kind) < 4.5 * np.sqrt(of_kind * (1 - of_kind) / kind.size))
    assert found.attrs["summed_out"] == "['kind', 'coin'] two values at a time"
    tree.to_netcdf(tmp_path / "tree.nc")
    with xr.open_datatree(tmp_path / "tree.nc") as again:
        assert float(lz.evidence(again)["evidence"]["log_z"][0]) == pytest.approx(log_z)


def test_draws_follow_the_seed_and_log_z_does_not() -> None:
    """Catches draws that are the same whatever the seed."""
    one, other = (run_of("hais", seed) for seed in (1, 2))
    assert not one["posterior"].equals(other["posterior"])
    xr.testing.assert_identical(one["evidence"]["log_z"], other["evidence"]["log_z"])


def test_numbers_without_an_end_are_moved() -> None:
    """Catches a sum that leaves out values, where `evidence` may choose."""
    energy = energies.thinned_poisson()
    tree = lz.evidence(energy.model, random_seed=1, progressbar=False, draws=128, chains=2)
    assert tree["evidence"]["estimator"].values.tolist() == ["hais"]
    models.assert_log_z(tree, energy.log_z, within=0.1)


@pytest.mark.slow
def test_a_tempered_run_sums_out() -> None:
    """Catches a tempered run that moves labels which it was told to sum out."""
    energy = energies.labelled_mixture()
    settings = {"draws": 100, "chains": 2, "sum_out": True, "random_seed": 1, "progressbar": False}
    tree = lz.sample_tempered(model=energy.model, **settings)
    models.assert_log_z(tree, energy.log_z, within=0.15)
    assert tree["evidence"].attrs["summed_out"] == "['label'] one value at a time"
    assert set(np.unique(tree["posterior"]["label"])) == {0, 1}


def test_bits_have_nothing_that_a_run_sums_out() -> None:
    """Catches an argument that is ignored."""
    with pytest.raises(ValueError, match="sum_out=True is for PyMC models"):
        lz.sample_tempered(model=energies.ising_torus((4, 4), 0.2), sum_out=True)
