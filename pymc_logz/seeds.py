"""Random generators: one for each unit of work, spawned from the one that the user chose."""

from typing import Any, NamedTuple

import numpy as np


def random_generator(random_seed: Any) -> np.random.Generator:
    """Generator for anything that ``pm.sample`` takes as ``random_seed``, a copy if it is one."""
    from pymc.util import get_random_generator

    return get_random_generator(random_seed)


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
