"""The `>>>` examples of the public namespaces: complete, and true as printed."""

import doctest
import inspect
from itertools import pairwise
from typing import Any

import pytest
from support.printed_code import public_objects

OBJECTS = dict(public_objects())
EXAMPLES = {name: value for name, value in OBJECTS.items() if ">>>" in (value.__doc__ or "")}
WITH_EXAMPLES = ("pymc_logz.estimators.", "pymc_logz.energies.")
"""Namespaces in which all that is public shows how it is used."""
FUNCTIONS = sorted(name for name, value in OBJECTS.items() if inspect.isfunction(value))
RECORDS = sorted(
    name
    for name, value in OBJECTS.items()
    if inspect.isclass(value) and name.startswith(WITH_EXAMPLES)
)


def run_examples(value: Any, name: str) -> str:
    """What doctest has to say of a docstring's examples: nothing if they are true."""
    said: list[str] = []
    for example in doctest.DocTestFinder(recurse=False).find(value, name, globs={}):
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
            example, out=said.append
        )
    return "".join(said)


def sections(text: str) -> set[str]:
    """Headings of a numpydoc docstring."""
    lines = text.splitlines()
    return {one for one, below in pairwise(lines) if one and below == "-" * len(one)}


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_true(name: str) -> None:
    """Would catch a printed number that is no longer so, and a name that has moved.

    Nothing is imported for them: what a reader copies must run by itself.
    """
    assert run_examples(EXAMPLES[name], name) == ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_of_functions_are_complete(name: str) -> None:
    """Would catch a function that keeps an argument, its result, or its use to itself."""
    function, text = OBJECTS[name], inspect.getdoc(OBJECTS[name]) or ""
    signature = inspect.signature(function)
    wanted = {"Parameters"} if signature.parameters else set()
    wanted |= {"Returns"} if signature.return_annotation is not None else set()
    assert {*wanted, "Examples"} - sections(text) == set()
    assert [one for one in signature.parameters if one not in text] == []


@pytest.mark.parametrize("name", [name for name in OBJECTS if name not in FUNCTIONS])
def test_docstrings_of_classes_show_a_use(name: str) -> None:
    """Would catch a class, an error or a protocol that nobody is shown how to use."""
    assert "Examples" in sections(inspect.getdoc(OBJECTS[name]) or "")


@pytest.mark.parametrize("name", RECORDS)
def test_docstrings_of_records_are_complete(name: str) -> None:
    """Would catch a field without a meaning, and a record that shows no use."""
    text = inspect.getdoc(OBJECTS[name]) or ""
    assert "Examples" in sections(text)
    assert sections(text) & {"Parameters", "Attributes"}
    assert [one for one in inspect.signature(OBJECTS[name]).parameters if one not in text] == []


def test_an_example_that_is_not_true_is_found() -> None:
    """Positive control: a wrong number must not pass."""

    def wrong() -> None:
        """>>> 1 + 1
        3
        """

    assert "Expected" in run_examples(wrong, "wrong")
