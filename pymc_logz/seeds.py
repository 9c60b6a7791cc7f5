"""Random generators: one for each unit of work, spawned from the one that the user chose."""

from typing import Any, NamedTuple

import numpy as np


def random_generator(random_seed: Any) -> np.random.Generator:
    """Generator for anything that ``pm.sample`` takes as ``random_seed``, a copy if it is one."""
    from pymc.util import get_random_generator

    try:
        return get_random_generator(random_seed)
    except (TypeError, ValueError) as error:
        allowed = "None, a non-negative integer, a sequence of them, or a numpy.random.Generator"
        raise type(error)(f"random_seed={random_seed!r} must be {allowed}") from None


class Generators(NamedTuple):
    """Random generators of one call, apart, so that none of its parts changes the others."""

    checks: np.random.Generator
    """Of checks, and of what is looked for in the model itself."""
    pilot: np.random.Generator
    """Of the pilot, or of a bridge's proposals."""
    run: np.random.Generator
    """Of the run: its chains spawn from it."""


def generators_from(random_seed: Any) -> Generators:
    """The generators of a call, from anything that ``pm.sample`` takes as ``random_seed``."""
    run = random_generator(random_seed)
    checks, pilot = spawn_generators(run, 2)
    return Generators(checks, pilot, run)


def spawn_generators(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """N independent generators; the i-th does not depend on n."""
    seed = np.random.SeedSequence(rng.integers(2**63, size=4).tolist())
    # SFC64 draws normals a fifth faster than NumPy's default, and noise is most of the cost
    return [np.random.Generator(np.random.SFC64(child)) for child in seed.spawn(n)]


class DeviceGenerator:
    """Draws the noise of kernels where JAX computes; whatever else is asked of it NumPy draws.

    Its stream follows from the generator's, but is another one: runs on a GPU repeat by their seed,
    and differ from those on a processor.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        import jax

        self._rng, self._random = rng, jax.random
        self._key = jax.random.key(int(rng.integers(2**63)))

    def _next(self) -> Any:
        self._key, key = self._random.split(self._key)
        return key

    def random(self, shape: Any) -> Any:
        """Uniforms in [0, 1)."""
        return self._random.uniform(self._next(), shape, "float64")

    def standard_normal(self, shape: Any) -> Any:
        """Standard normals."""
        return self._random.normal(self._next(), shape, "float64")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)


def generator_of_noise(backend: str, rng: np.random.Generator) -> Any:
    """What draws noise for a function of this backend: the generator, or one on JAX's GPU."""
    if backend != "jax":
        return rng
    import jax

    return rng if jax.default_backend() == "cpu" else DeviceGenerator(rng)
