"""What a black box raises comes to the caller as it was raised, of whatever class."""

from typing import ClassVar

import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.op import Op

import pymc_logz as lz

FAST = {"random_seed": 1, "progressbar": False}
pytestmark = pytest.mark.filterwarnings("ignore:the model has potentials")


class Fails(Op):
    """A likelihood that is no number anywhere."""

    itypes: ClassVar = [pt.dvector]
    otypes: ClassVar = [pt.dscalar]

    def __init__(self, fail):
        self.fail = fail

    def perform(self, node, inputs, outputs):
        outputs[0][0] = self.fail()


def raised_by(fail):
    """What a run raises whose likelihood fails in this way."""
    with pm.Model() as model:
        pm.Potential("likelihood", Fails(fail)(pm.Normal("t", shape=2)))
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        lz.sample_hais(model=model, **FAST)
    return raised.value


class Stops(BaseException):
    """No Exception."""


def fail_with(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Stops("here")])
def test_what_is_no_exception_comes_too(error, capfd):
    """Would catch an error of JAX's in its place, and what JAX prints of it."""
    assert raised_by(fail_with(error)) is error
    assert "raised by Fails" in error.__notes__[0]
    assert "Traceback" not in capfd.readouterr().err


def test_an_interrupt_that_an_op_raises_is_one():
    assert isinstance(raised_by(fail_with(KeyboardInterrupt())), KeyboardInterrupt)


def test_causes_and_contexts_stay():
    """Would catch `raise ... from None` of the package, which hides what failed first."""

    def with_cause():
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError as error:
            raise ArithmeticError("a step") from error

    def with_context():
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError:
            raise ArithmeticError("a step")  # noqa: B904

    caused, in_context = raised_by(with_cause), raised_by(with_context)
    assert isinstance(caused.__cause__, ZeroDivisionError)
    assert isinstance(in_context.__context__, ZeroDivisionError)
    assert in_context.__cause__ is None
    assert not in_context.__suppress_context__


def test_an_exception_that_takes_no_notes():
    class Bare(Exception):
        """One of the user's."""

        def add_note(self, note):
            raise TypeError("no notes")

    assert isinstance(raised_by(fail_with(Bare())), Bare)


def test_the_end_of_an_iterator_is_told_as_an_error():
    """Would catch that Python says `generator raised StopIteration`, without a name."""
    error = raised_by(lambda: next(iter([])))
    assert isinstance(error, RuntimeError)
    assert str(error).startswith("Fails, an Op of the model, raised StopIteration() at [array(")
    assert isinstance(error.__cause__, StopIteration)


def test_what_is_no_array_is_named():
    error = raised_by(lambda: [[1.0], [1.0, 2.0]])
    assert isinstance(error, ValueError)
    assert str(error).startswith("Fails, an Op of the model, computed what NumPy makes no array of")
