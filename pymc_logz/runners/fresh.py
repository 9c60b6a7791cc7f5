"""Fresh draws of a reference, for walkers that get there."""

from collections.abc import Callable

import numpy as np

MOST_FRESH_ROWS = 2048
"""Rows of a reference that are drawn at a time."""


class FreshRows:
    """Independent draws of a reference, made many at a time and handed out a few at a time.

    Those of a mixture are made in the exact shares of its components.

    Parameters
    ----------
    draw
        ``(rng, n)`` to n rows of the reference, shape (n, d).
    rng
        Source of them.
    n_at_once
        Rows to be made at a time.
    """

    def __init__(
        self,
        draw: Callable[[np.random.Generator, int], np.ndarray],
        rng: np.random.Generator,
        n_at_once: int,
    ) -> None:
        self.draw, self.rng, self.n_at_once = draw, rng, n_at_once
        self.left: np.ndarray | None = None

    def take(self, n: int) -> np.ndarray:
        """The next n rows, shape (n, d)."""
        if self.left is None or len(self.left) < n:
            made = self.draw(self.rng, max(n, self.n_at_once))
            self.left = made if self.left is None else np.concatenate([self.left, made])
        taken, self.left = self.left[:n], self.left[n:]
        return taken
