"""Runs whose likelihood is an Op: what they say of its calls beforehand, and how these are made."""

import logging
import re
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pymc as pm
import pytest
from support.counted_ops import Counted

import pymc_logz as lz
from pymc_logz.graphs.threads import AT_ONCE
from pymc_logz.runners.progress import TimeLeft

pytestmark = pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning")
FAST = {"random_seed": 1, "progressbar": False}


class Line(Counted):
    def value(self, a, b):
        return -8.0 * (a - 1) ** 2 - 4.0 * (b - 2) ** 2


def model_of(op):
    with pm.Model() as model:
        pm.Potential("likelihood", op(pm.Normal("t", 0, 2, shape=2)))
    return model


WALK = lz.kernels.RandomWalk(step_size=0.5, scale=1.0)  # which leaves nothing to a pilot
PLANNED = {
    "forward": lambda model: lz.sample_hais(64, 2, model=model, betas=64, kernel=WALK, **FAST),
    "both": lambda model: lz.sample_hais(
        64, 2, model=model, betas=64, kernel=WALK, direction="both", **FAST
    ),
    "no path": lambda model: lz.sample_hais(model=model, **FAST),
    "with a second estimate": lambda model: lz.evidence(model, **FAST),
    "tempered": lambda model: lz.sample_tempered(200, model=model, betas=4, **FAST),
}


@pytest.mark.parametrize("run", PLANNED)
def test_what_is_planned_is_told_with_its_evaluations(run, monkeypatch, caplog):
    """Catches a number of evaluations that is not that of the calls made from then on."""
    op, told = Line(), []
    handler = logging.Handler()
    handler.emit = lambda record: told.append((op.n_calls, record.getMessage()))
    monkeypatch.setattr(TimeLeft, "long", 0.0)
    monkeypatch.setattr(TimeLeft, "patience", np.inf)  # so that it is told beforehand or never
    caplog.set_level(logging.INFO, "pymc.pymc_logz")
    logging.getLogger("pymc.pymc_logz").addHandler(handler)
    try:
        PLANNED[run](model_of(op))
    finally:
        logging.getLogger("pymc.pymc_logz").removeHandler(handler)
    planned = [
        (before, int(found.group(1).replace(",", "")))
        for before, text in told
        if (found := re.search(r"to go, for about ([\d,]+) evaluations", text))
    ]
    assert planned
    for before, n in planned:
        assert 1 / 1.5 < n / (op.n_calls - before) < 1.5


def test_evaluations_of_data_rows_are_told(monkeypatch, caplog):
    """Catches a run of one datum after the other that says nothing of its calls."""
    op = Line()
    with pm.Model() as model:
        y = pm.Data("y", 0.0)
        t = pm.Normal("t", 0, 2, shape=2)
        pm.Normal("seen", t[0] + 1e-3 * op(t), 1.0, observed=y)
    monkeypatch.setattr(TimeLeft, "long", 0.0)
    with caplog.at_level(logging.INFO, "pymc.pymc_logz"):
        given = {"draws": 32, "betas": 16, "kernel": WALK, **FAST}
        lz.marginal_log_likelihood(model, {"y": [0.0, 0.5]}, **given)
    [said] = [text for text in caplog.messages if text.startswith("Annealing")]
    n = int(re.search(r"for about ([\d,]+) evaluations", said).group(1).replace(",", ""))
    assert 1 / 1.5 < n / op.n_calls < 1.5


class AtOnce(Line):
    """Sees how many threads are in it."""

    thread_safe = True

    def __init__(self):
        super().__init__()
        self.now, self.most, self.lock = 0, 0, threading.Lock()

    def value(self, a, b):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(1e-4)
        with self.lock:
            self.now -= 1
        return super().value(a, b)


@pytest.mark.parametrize(("cores", "most"), [(1, 1), (2, 2)])
def test_cores_bound_the_calls_at_once(cores, most, monkeypatch):
    """Catches calls on all processors although one was asked for, in checks too."""
    monkeypatch.setattr(AT_ONCE, "_n", 2)
    op = AtOnce()
    lz.evidence(model_of(op), cores=cores, draws=64, chains=2, **FAST)
    assert op.most == most


class Locks(Line):
    """Has what no other process can be sent."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_a_likelihood_that_cannot_be_sent_is_told_before_the_pilot():
    """Would catch an error after minutes of work that does not say what it is about."""
    op = Locks()
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor,
        pytest.raises(TypeError, match=r"Locks.*, an Op of the model, cannot be pickled .*threads"),
    ):
        lz.sample_hais(model=model_of(op), executor=executor, **FAST)
    assert op.n_calls <= 1
