"""Models with whole numbers that can be summed out, each a function that a context calls."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt

X = np.array([-2.0, -1.5, 0.3, 1.8])


def categories() -> None:
    """Labels whose probabilities are free, and that pick means and spreads."""
    weight = pm.Dirichlet("weight", np.ones(3))
    mean, sd = pm.Normal("mean", 0, 3, shape=3), pm.HalfNormal("sd", shape=3)
    label = pm.Categorical("label", weight, shape=4)
    pm.Normal("y", mean[label], sd[label], observed=X)


def groups() -> None:
    """Labels of two groups, each of which two observations share, in a switch."""
    mean = pm.Normal("mean")
    label = pm.Bernoulli("label", pm.math.sigmoid(mean), shape=2)
    pm.Normal("y", pm.math.switch(label[np.array([0, 0, 1, 1])], mean, -1.0), 1, observed=X)


def table() -> None:
    """Labels in a table, whose rows are summed over columns by the likelihood."""
    mean = pm.Normal("mean")
    label = pm.DiscreteUniform("label", -1, 1, shape=(4, 1))
    terms = pm.logp(pm.Normal.dist(mean * label, 1.0), np.stack([X, X + 1], axis=1))
    pm.Potential("both", terms.sum(axis=1))


def both() -> None:
    """A change between two ways that labels work: together and one by one."""
    mean, change = pm.Normal("mean"), pm.DiscreteUniform("change", 1, 3)
    label = pm.Bernoulli("label", 0.3, shape=4)
    rate = pm.math.switch(np.arange(4) < change, mean * label, 2.0 - label)
    pm.Normal("y", rate, 1.0, observed=X)


def neighbours() -> None:
    """Labels that depend on each other."""
    mean = pm.Normal("mean")
    label = pm.Bernoulli("label", 0.4, shape=4)
    pm.Normal("y", mean * label, 1.0, observed=X)
    pm.Potential("alike", (label[1:] * label[:-1]).sum() * mean)


def hierarchy() -> None:
    """A label whose own prior is another label's, and values with other bounds."""
    top = pm.Bernoulli("top", 0.3)
    label = pm.Binomial("label", n=np.array([1, 3]), p=0.2 + 0.5 * top, shape=2)
    mean = pm.Normal("mean")
    pm.Normal("y", mean + label, 1.0, observed=X[:2])


def steps() -> None:
    """A hidden Markov chain, written as a loop over its steps."""
    move, start = pm.Dirichlet("move", np.ones((3, 3))), pm.Dirichlet("start", np.ones(3))
    mean = pm.Normal("mean", 0, 2, shape=3)
    state = [pm.Categorical("state_0", start)]
    for t in range(1, 4):
        state.append(pm.Categorical(f"state_{t}", move[state[-1]]))
    pm.Normal("y", mean[pt.stack(state)], 1.0, observed=X)


def vector() -> None:
    """A hidden Markov chain, written as a vector; some of its moves are impossible."""
    stay, mean = pm.Beta("stay", 2, 1), pm.Normal("mean", shape=2)
    move = pt.stack([pt.stack([stay, 1 - stay]), np.array([0.0, 1.0])])
    state = pm.Categorical("state", np.ones(2) / 2, shape=7)
    pm.Potential("moves", pt.log(2 * move[state[:-1], state[1:]]).sum())
    pm.Normal("y", mean[state], 1.0, observed=np.resize(X, 7))


def ring() -> None:
    """Signs that depend on two neighbours each, all around, and on one in the middle."""
    mean, middle = pm.Normal("mean"), pm.Bernoulli("middle", 0.3)
    label = pm.DiscreteUniform("label", -1, 1, shape=6)
    pm.Potential("alike", (label * label[np.arange(-1, 5)]).sum() * mean)
    pm.Normal("y", mean + label + middle, 1.0, observed=np.resize(X, 6))


def tree() -> None:
    """Labels that each hang on one of two others, which hang on a third."""
    mean, top = pm.Normal("mean"), pm.Bernoulli("top", 0.3)
    inner = pm.Bernoulli("inner", pm.math.switch(top, 0.8, 0.3), shape=2)
    label = pm.Bernoulli("label", 0.1 + 0.7 * inner[np.array([0, 0, 0, 1, 1, 1])], shape=6)
    pm.Normal("y", mean * label, 1.0, observed=np.resize(X, 6))


CASES: dict[str, tuple[Callable[[], None], tuple[int, int, int]]] = {
    "categories": (categories, (1, 3, 4)),
    "groups": (groups, (1, 2, 2)),
    "table": (table, (1, 3, 4)),
    "both": (both, (3, 2, 4)),
    "neighbours": (neighbours, (1, 2, 4)),
    "hierarchy": (hierarchy, (2, 4, 2)),
    "steps": (steps, (1, 3, 4)),
    "vector": (vector, (1, 2, 7)),
    "ring": (ring, (2, 3, 6)),
    "tree": (tree, (1, 2, 9)),
}
INDEPENDENT = {"neighbours": 0, "steps": 2, "vector": 0, "ring": 0, "tree": 7}
"""Entries that are drawn at once, where others are summed out besides."""
