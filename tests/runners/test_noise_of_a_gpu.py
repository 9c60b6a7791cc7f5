"""Noise that JAX draws where it computes, as on a GPU, here on the processor."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_logz as lz
from pymc_logz import seeds
from pymc_logz.runners import block, temper

jax = pytest.importorskip("jax", reason="noise is drawn by JAX")
jax.config.update("jax_enable_x64", True)  # as PyTensor does when it first compiles for JAX


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """All noise of kernels is drawn by JAX."""
    for module in (block, temper):
        monkeypatch.setattr(module, "generator_of_noise", lambda _, rng: seeds.DeviceGenerator(rng))


def test_noise_follows_its_laws_and_its_seed() -> None:
    """Catches a key that is used twice, and a stream that the seed does not decide."""

    def drawn(seed: int) -> list[np.ndarray]:
        source = seeds.DeviceGenerator(np.random.default_rng(seed))
        found = [source.random((4, 500)), source.random((4, 500)), source.standard_normal((4, 500))]
        return [np.asarray(one) for one in found]

    first, second, normal = drawn(1)
    for one, law in ((first, stats.uniform), (second, stats.uniform), (normal, stats.norm)):
        assert one.dtype == np.float64
        assert stats.kstest(one.ravel(), law.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.1
    for again, other, known in zip(drawn(1), drawn(2), (first, second, normal), strict=True):
        assert (again == known).all()
        assert not (other == known).any()


def test_what_jax_does_not_draw_numpy_does() -> None:
    """Catches kernels of users that ask the generator for more."""
    source = seeds.DeviceGenerator(np.random.default_rng(1))
    assert source.gamma(2.0, size=3).shape == (3,)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("kernel", ["hais", "slice"])
def test_log_z_is_right(kernel: str) -> None:
    """Catches noise of wrong shapes, and rows filled up that count."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Normal("y", x.sum(), 1, observed=2.0)
    exact = stats.norm(0, 3**0.5).logpdf(2.0)
    settings = {"model": model, "kernel": kernel, "random_seed": 1, "progressbar": False}
    forward = lz.sample_hais(300, 1, reference="prior", **settings)
    tempered = lz.sample_tempered(300, 2, **settings)
    for tree in (forward, tempered):
        one = tree["evidence"].to_dataset().isel(estimator=0)
        assert abs(float(one["log_z"]) - exact) < 4 * float(one["mcse"])


@pytest.mark.usefixtures("as_on_a_gpu")
def test_bits_too() -> None:
    """Catches uniforms of bits that are not fresh."""
    rng = np.random.default_rng(1)
    rbm = lz.energies.bernoulli_rbm(rng.normal(0, 0.5, (8, 4)), np.zeros(8), np.zeros(4))
    tree = lz.sample_hais(300, 1, model=rbm, betas=50, random_seed=1, progressbar=False)
    one = tree["evidence"].to_dataset().isel(estimator=0)
    assert abs(float(one["log_z"]) - rbm.log_z) < 4 * float(one["mcse"])
