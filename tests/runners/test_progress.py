"""What a user sees of a run: lines of the progress bar, and how long it will take."""

import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_base import dict_to_dataset

from pymc_logz import bridge_sampling, sample_hais, sample_tempered
from pymc_logz.kernels import Hamiltonian
from pymc_logz.runners.progress import (
    BAR_LENGTH,
    Evaluations,
    Pilot,
    TimeLeft,
    duration,
    is_shown,
    line,
    progress_bar,
    report_count,
    shown_pilot,
)

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")

PYTHON = {"mode": "FAST_COMPILE"}


class Bar:
    """Keeps what PyMC's bar would show: description, how much is done, and of how much."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.texts: list[str] = []

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: Any) -> None: ...

    def add_task(self, description: str, completed: int, total: int | None, **shown: bool) -> int:
        task = {"description": description, "completed": completed, "total": total}
        self.lines.append(task | shown)
        self.texts.append(description)
        return len(self.lines) - 1

    def advance(self, task: int, n: int = 1) -> None:
        self.lines[task]["completed"] += n

    def update(self, task: int, refresh: bool, **news: Any) -> None:
        self.lines[task] |= news
        self.texts.append(self.lines[task]["description"])


def test_the_pilot_says_where_it_is() -> None:
    """Catches a bar that stands still while beta is small, or does not get to its end."""
    bar = Bar()
    pilot, shares = Pilot(bar), []
    for beta in (1e-6, 1e-4, 1e-2, 1.0):
        pilot.reached(beta)
        shares.append(bar.lines[0]["completed"] / BAR_LENGTH)
    assert bar.texts[2] == "Pilot: beta=0.0001, stage 2"
    assert shares == sorted(shares)
    assert 0.25 < shares[1] < 0.75
    assert shares[-1] == 1
    pilot.reached(1e-6)
    assert bar.texts[-1] == "Pilot: beta=1e-06, stage 1", "a pilot that starts again"


def test_the_pilot_shows_its_moves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Catches a pilot that stands at one temperature for minutes without a sign of life."""
    bar = Bar()
    monkeypatch.setattr("pymc.progress_bar.create_simple_progress", lambda shown: bar)
    monkeypatch.setattr(TimeLeft, "long", -1.0)
    caplog.set_level(logging.INFO, "pymc.pymc_logz")
    assert shown_pilot() is None
    with progress_bar(True):
        assert is_shown()
        with line("Checking"):
            assert shown_pilot() is None, "there is a line already"
        pilot = shown_pilot()
        assert pilot is shown_pilot()
        pilot.moved(8)
        assert bar.texts[-1] == "Pilot: start, 8 moves"
        pilot.reached(0.5)
        pilot.moved(8)
        pilot.moved(8)
        assert bar.texts[-1] == "Pilot: beta=0.5, stage 1, 16 moves"
        with progress_bar(True):
            other = shown_pilot()
            assert other is not pilot, "another call has a line of its own"
            other.moved(8, "")
    assert not is_shown()
    [sentence, without] = caplog.messages
    assert "Cheaper: if the posterior has one mode, lz.evidence(idata, model)" in sentence
    assert without.endswith("is slow on this model."), "no pm.sample to draw by"


def test_stages_of_a_call_have_lines_of_one_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a bar of its own for each stage, lines of what is over at once, and silent calls."""
    bars = [Bar(), Bar(), Bar()]
    left = iter(bars)
    monkeypatch.setattr("pymc.progress_bar.create_simple_progress", lambda shown: next(left))
    with progress_bar(True), progress_bar(True), line("Fitting"):
        assert is_shown()
        with progress_bar(False), line("Nobody looks"):
            assert not is_shown()
    assert [text for bar in bars for text in bar.texts] == ["Fitting", "Fitting"]
    assert bars[0].lines == [
        {"description": "Fitting", "completed": 1, "total": 1, "visible": False}
    ]


def test_what_is_logged_appears_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches sentences that the bar draws itself over: it knows only of ``sys.stderr``."""
    handler = logging.StreamHandler(sys.__stderr__)
    logger = logging.getLogger("pymc")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr("pymc.progress_bar.create_simple_progress", lambda shown: Bar())
    with progress_bar(True):
        assert handler.stream is sys.stderr
    assert handler.stream is sys.__stderr__


def test_rounds_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a warm-up of which nobody knows how far it is."""
    bar = Bar()
    monkeypatch.setattr("pymc.progress_bar.create_simple_progress", lambda shown: bar)
    with progress_bar(True):
        report = report_count("Warm-up", None)
    report(64)
    report(128)
    assert bar.texts[-1] == "Warm-up: round 2"
    assert bar.lines[0]["completed"] == 192


class Clock:
    """Seconds that pass when told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def watched(seconds_per_part: float, total: int) -> Iterator[str]:
    """What is said after each part of the work."""
    clock, records = Clock(), []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("pymc.pymc_logz")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    watch = TimeLeft("Annealing", total, "fewer draws", clock)
    try:
        clock.now += 50.0  # compiling, which says nothing about the rest
        for _ in range(total):
            watch(1)
            yield " ".join(records)
            clock.now += seconds_per_part
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def test_a_long_run_says_once_how_long_it_takes() -> None:
    """Catches a prediction that compiling enters, that comes late, or again and again."""
    said = list(watched(1.0, 304))
    assert said[2] == ""
    assert said[3] == "Annealing: about 5 minutes to go. Cheaper: fewer draws."
    assert said[-1] == said[3]


@pytest.mark.parametrize(("seconds", "total"), [(0.01, 2900), (1.0, 30)])
def test_a_short_run_says_nothing(seconds: float, total: int) -> None:
    """Catches an alarm for runs of less than half a minute."""
    assert set(watched(seconds, total)) == {""}


@pytest.mark.parametrize("pace", [1e-3, 0.0])
def test_evaluations_are_told_beforehand_or_once_their_pace_is_known(
    pace: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Catches minutes of a black box before a word, and a number of all where some are left."""
    caplog.set_level(logging.INFO, "pymc.pymc_logz")
    clock = Clock()
    watch = TimeLeft("Annealing", 200, "fewer draws", clock, Evaluations(720_123, pace))
    said = "Annealing: about 12 minutes to go, for about 720,000 evaluations of the model. "
    assert caplog.messages == ([said + "Cheaper: fewer draws."] if pace else [])
    for _ in range(100):
        watch(1)
        clock.now += 0.4
    if not pace:
        [said] = caplog.messages
        assert "a minute to go, for about 690,000 evaluations of the model." in said
    assert len(caplog.messages) == 1


def test_durations() -> None:
    """Catches a unit that is wrong by sixty."""
    assert [duration(seconds) for seconds in (40, 61, 300, 5399, 7200)] == [
        "half a minute",
        "a minute",
        "5 minutes",
        "90 minutes",
        "2.0 hours",
    ]


@pytest.fixture
def model() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=0.7)
    return model


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Bar:
    """The bar that runs report to; and each of them is long enough to say so."""
    monkeypatch.setattr(TimeLeft, "patience", 0.0)
    monkeypatch.setattr(TimeLeft, "long", -1.0)
    bar = Bar()
    monkeypatch.setattr("pymc.progress_bar.create_simple_progress", lambda shown: bar)
    return bar


@pytest.mark.filterwarnings("ignore:.*has status 'few_rows'")
def test_lines_and_sentence_of_an_annealing(
    model: pm.Model, bar: Bar, caplog: pytest.LogCaptureFixture
) -> None:
    """Catches lines that count something else than is done, and advice that does not apply."""
    caplog.set_level(logging.INFO, "pymc.pymc_logz")
    kernel = Hamiltonian(n_steps=2, step_size=0.5, scale=1.0)
    settings: dict[str, Any] = {"kernel": kernel, "cores": 1, "compile_kwargs": PYTHON}
    sample_hais(4, 2, model=model, betas=64, direction="both", random_seed=1, **settings)
    named = [line["description"] for line in bar.lines]
    assert named[0] == "Compiling the model", "before the first line there is silence"
    assert named[-1] == "Checking the result"
    annealing, reverse = bar.lines[-3:-1]
    assert annealing["description"] == "Annealing: 64 temperatures, 2 chains"
    assert reverse["description"] == "Reverse: 64 temperatures, 2 chains"
    assert annealing["completed"] == annealing["total"] == 128
    [sentence] = [text for text in caplog.messages if text.startswith("Annealing")]
    assert "fewer draws or chains than 4 and 2" in sentence
    assert "less often" in sentence
    assert "target_mcse" not in sentence


def test_lines_of_a_tempered_run(model: pm.Model, bar: Bar) -> None:
    """Catches a bar that stands still while walkers climb, or that gets beyond its end."""
    kernel = Hamiltonian(step_size=0.5, scale=1.0)
    settings: dict[str, Any] = {"kernel": kernel, "cores": 1, "compile_kwargs": PYTHON}
    sample_tempered(
        40, 2, walkers=6, model=model, betas=[0, 0.5, 1], tune=10, random_seed=1, **settings
    )
    named = [line["description"] for line in bar.lines]
    assert named[0] == "Compiling the model"
    assert "Compiling the moves of walkers" in named
    assert named[-2:] == ["Estimating log Z of all temperatures", "Checking the result"]
    warm_up, tempering = bar.lines[-4:-2]
    assert warm_up["description"].startswith("Warm-up: round ")
    assert tempering["description"] == "Tempering: 3 levels, 6 walkers, 2 chains"
    assert tempering["completed"] == tempering["total"]


def test_lines_of_a_bridge(model: pm.Model, bar: Bar) -> None:
    """Catches seconds of compiling and checking without a word."""
    draws = np.random.default_rng(1).normal(0.35, np.sqrt(0.5), (2, 500))
    idata = xr.DataTree.from_dict({"posterior": dict_to_dataset({"mu": draws})})
    bridge_sampling(idata, model, random_seed=1, compile_kwargs=PYTHON)
    assert [line["description"] for line in bar.lines] == [
        "Compiling the model",
        "Density of 1000 draws of the posterior",
        "Bridge: draws of the proposal",
        "Checking the result",
    ]


def test_no_sentence_is_asked_for_without_advice(
    bar: Bar, caplog: pytest.LogCaptureFixture
) -> None:
    """Catches a sentence about steps of a bridge, which are not of one size."""
    caplog.set_level(logging.INFO, "pymc.pymc_logz")
    with progress_bar(True):
        report = report_count("Bridge", 4)
    report(1)
    report(1)
    assert not caplog.messages
    assert bar.lines[0]["completed"] == 2


def test_what_cannot_be_counted_says_what_is_cheaper(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Catches minutes in the dark, and a word about what takes no time or has no remedy."""
    monkeypatch.setattr(TimeLeft, "long", 0.1)
    caplog.set_level(logging.INFO, "pymc.pymc_logz")
    with line("Compiling"):
        time.sleep(0.2)
    assert not caplog.messages
    with line("Fitting", "fewer draws"):
        time.sleep(0.2)
    monkeypatch.setattr(TimeLeft, "long", 1.0)
    with line("Checking", "nothing"):
        pass
    time.sleep(0.6)
    assert caplog.messages == ["Fitting is slow on this model. Cheaper: fewer draws."]
