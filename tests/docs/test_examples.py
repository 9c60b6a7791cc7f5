"""The `>>>` examples of the public namespaces: complete, and true as printed."""

import doctest
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

SPACES = ("pymc_logz", "pymc_logz.kernels", "pymc_logz.estimators", "pymc_logz.energies")
SECTIONS = ("Parameters", "Returns", "Examples")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public_objects() -> Iterator[tuple[str, Any]]:
    """Functions and classes of the namespaces, by their whole name."""
    for space in SPACES:
        module = importlib.import_module(space)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{space}.{name}", value


OBJECTS = dict(public_objects())
EXAMPLES = {name: value for name, value in OBJECTS.items() if ">>>" in (value.__doc__ or "")}
ENTRY_POINTS = sorted(
    name for name in OBJECTS if name.startswith(("pymc_logz.estimators.", "pymc_logz.energies."))
)


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_true(name: str) -> None:
    """Would catch a printed number that is no longer so, and a name that has moved.

    Nothing is imported for them: what a reader copies must run by itself.
    """
    printed: list[str] = []
    with np.printoptions(legacy=False):
        for example in doctest.DocTestFinder(recurse=False).find(EXAMPLES[name], name, globs={}):
            doctest.DocTestRunner(optionflags=FLAGS).run(example, out=printed.append)
    assert printed == [], "".join(printed)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_docstrings_are_complete(name: str) -> None:
    """Would catch an estimator or energy without its parameters, its result, or an example."""
    value = OBJECTS[name]
    text = inspect.getdoc(value) or ""
    wanted = set(SECTIONS) - ({"Returns"} if inspect.isclass(value) else set())
    parameters = inspect.signature(value).parameters
    wanted -= set() if parameters else {"Parameters"}
    found = {section for section in wanted if f"{section}\n{'-' * len(section)}\n" in text}
    if "Attributes\n----------\n" in text:  # of a record, where they are its parameters
        found |= {"Parameters"} & wanted
    assert wanted - found == set()
    assert [one for one in parameters if one not in text] == []


def test_an_example_that_is_not_true_is_found() -> None:
    """Positive control: a wrong number must not pass."""

    def wrong() -> None:
        """>>> 1 + 1
        3
        """

    printed: list[str] = []
    for example in doctest.DocTestFinder(recurse=False).find(wrong, "wrong", globs={}):
        doctest.DocTestRunner(optionflags=FLAGS).run(example, out=printed.append)
    assert "Expected" in "".join(printed)
