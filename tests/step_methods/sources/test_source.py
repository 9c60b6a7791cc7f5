"""Work is done where it can be: here, or in a fresh process if this one is a fork with JAX."""

import os

import cloudpickle
import pytest

from pymc_logz.step_methods.sources.base import Source


class Teller(Source):
    """Tells which process answers."""

    def __init__(self, on_jax: bool) -> None:
        super().__init__()
        self.on_jax = on_jax

    def answer(self, message):
        return os.getpid(), message

    def uses_jax(self):
        return self.on_jax


@pytest.mark.parametrize(("on_jax", "forked"), [(False, False), (True, False), (False, True)])
def test_it_answers_here(on_jax, forked):
    """Would catch a process started without need."""
    source = Teller(on_jax)
    if forked:
        source._pid = -1
    assert source.ask("x") == (os.getpid(), "x")
    assert source._helper is None


def test_a_fork_with_jax_asks_a_fresh_process():
    """Would catch JAX called in a fork, which hangs; and a process for each message."""
    source = Teller(True)
    source._pid = -1
    (first, x), (second, y) = source.ask("x"), source.ask("y")
    assert (x, y) == ("x", "y")
    assert first == second != os.getpid()
    source._helper.close()


def test_it_arrives_as_one_of_the_new_process():
    """Would catch a helper or a process number that is carried along."""
    source = Teller(True)
    source._pid = -1
    other = cloudpickle.loads(cloudpickle.dumps(source))
    assert other.on_jax
    assert other.ask("x") == (os.getpid(), "x")
