"""Random generators: one for each unit of work, spawned from the one that the user chose."""

from typing import Any

import numpy as np


def random_generator(random_seed: Any) -> np.random.Generator:
    """Generator for anything that ``pm.sample`` takes as ``random_seed``, a copy if it is one."""
    from pymc.util import get_random_generator

    return get_random_generator(random_seed)


def spawn_generators(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """N independent generators; the i-th does not depend on n."""
    seed = np.random.SeedSequence(rng.integers(2**63, size=4).tolist())
    # SFC64 draws normals a fifth faster than NumPy's default, and noise is most of the cost
    return [np.random.Generator(np.random.SFC64(child)) for child in seed.spawn(n)]
