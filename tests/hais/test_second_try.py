"""How much a run spends: the error it aims at, and the one second try of a poor run."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from support.checks import make_rng
from support.pilot_runs import find_stages

from pymc_logz.hais import run as hais
from pymc_logz.hais.settings import VARIANCES, HaisSettings
from pymc_logz.loop.calls import Call
from pymc_logz.loop.frozen import Planned
from pymc_logz.pilot import ladder
from pymc_logz.pilot.ladder import MAX_GROWTH, Aim
from pymc_logz.references.blend import Blend, Prior
from pymc_logz.references.reference import ASKED_FOR, Reference
from pymc_logz.seeds import generators_from

N = 1024
GOOD, POOR = 0.1, 3.0
"""Standard deviations of log weights."""


def block_of() -> Any:
    """Moves of a model."""
    density = pt.dscalar()
    return SimpleNamespace(given_path=SimpleNamespace(log_reference=density, log_ratio=density))


def tried(monkeypatch: pytest.MonkeyPatch, spreads: list[float], **changes: Any) -> list[int]:
    """Temperatures of the runs made, whose log weights have these standard deviations."""
    reference = changes.pop("reference", ASKED_FOR)
    block, n_first = block_of(), changes.pop("n_first", 16)
    if changes.pop("calls_host", False):
        monkeypatch.setattr(ladder, "calls_host", lambda graphs: True)
    planned = Planned(block, find_stages().plan(n_first), reference, find_stages())
    given = {name: changes.pop(name) for name in ("stages",) if name in changes}
    if given:
        planned = Planned(block, planned.plan, ASKED_FOR, None)
    lengths: list[int] = []

    def run(chains: hais.Chains, planned: Planned) -> list[Any]:
        spread = spreads[len(lengths)]
        lengths.append(planned.plan.n_temperatures)
        weights = make_rng("try", spread).normal(0, spread, (chains.call.settings.chains, N))
        return [SimpleNamespace(log_weight=weight) for weight in weights]

    monkeypatch.setattr(hais.Chains, "until", run)
    settings = HaisSettings(draws=N, chains=2, **changes)
    counted, runs = hais.Chains(Call(settings, generators_from(1))).twice(planned)
    assert counted.plan.n_temperatures == lengths[-1]
    assert np.std(runs[0].log_weight) == pytest.approx(spreads[len(lengths) - 1], rel=0.2)
    return lengths


def test_a_good_run_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a second run that nobody needs."""
    assert tried(monkeypatch, [GOOD]) == [16]


def test_normal_tails_are_not_left_to_few_temperatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches skewed weights of a short ladder, whose stated error is too small.

    With an error of 0.04 from 9 temperatures log Z of 36 Student-t experts was low by 1.6 errors.
    """
    rough = 1.2
    assert tried(monkeypatch, [rough]) == [16]
    nested = Reference("nested_laplace", "in a test")
    first, second = tried(monkeypatch, [rough, GOOD], reference=nested)
    assert first == 16 < second
    assert tried(monkeypatch, [GOOD], reference=nested) == [16]


def test_a_poor_run_is_made_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a poor number handed over without a try, and tries without end."""
    assert tried(monkeypatch, [POOR, GOOD]) == [16, 16 * MAX_GROWTH]
    assert tried(monkeypatch, [POOR, POOR]) == [16, 16 * MAX_GROWTH]


def test_a_second_try_keeps_within_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a second run that takes hours."""
    moves = 2 * N * 16 * MAX_GROWTH
    monkeypatch.setattr(hais, "MOST_MOVES", moves)
    assert len(tried(monkeypatch, [POOR, GOOD])) == 2
    monkeypatch.setattr(hais, "MOST_MOVES", moves - 1)
    assert len(tried(monkeypatch, [POOR])) == 1


def test_a_black_box_is_not_called_ten_million_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a second run of days along a ladder that compiled models have time for."""
    assert tried(monkeypatch, [POOR, POOR], n_first=512) == [512, 512 * MAX_GROWTH]
    assert tried(monkeypatch, [POOR, POOR], n_first=512, calls_host=True) == [512, 1024]
    assert tried(monkeypatch, [POOR], n_first=1024, calls_host=True) == [1024]


def test_what_a_user_fixed_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches other temperatures than were given, and a second growth towards one error."""
    assert len(tried(monkeypatch, [POOR], stages=None)) == 1
    assert len(tried(monkeypatch, [POOR], target_mcse=0.01)) == 1


def test_errors_aimed_at_become_variances() -> None:
    """Catches an aim at the error of another number of rows."""
    aim = HaisSettings(draws=256, chains=4).aim
    assert aim.n_rows == N
    assert aim.variance == pytest.approx(np.log1p(N * 0.02**2))
    assert aim.most == VARIANCES[1]
    asked = HaisSettings(draws=512, chains=1, target_mcse=0.03).aim
    assert asked.variance == asked.most == pytest.approx(np.log1p(512 * 0.03**2))
    # a shorter ladder has rough weights, and for a smaller error more rows cost less
    assert HaisSettings(draws=N, chains=1, target_mcse=1e-4).aim.variance == VARIANCES[0]
    assert HaisSettings(target_variance=0.5).aim == Aim(0.5, 0.5)


def test_the_finer_aim_is_for_cheap_runs() -> None:
    """Catches dear runs made dearer for an error that no reading of a Bayes factor needs."""
    aim = Aim(0.1, 1.0, n_rows=N)
    assert aim.growth(Aim.n_moves // N // 4, 0.4) == pytest.approx(4.0)
    dear = 4 * Aim.n_moves // N
    assert aim.growth(dear, 0.4) == pytest.approx(0.4)
    assert aim.growth(dear, 5.0) == pytest.approx(5.0)
    # cheap as far as it goes
    assert aim.growth(Aim.n_moves // N // 2, 0.4) == pytest.approx(2.0)


def test_rows_without_a_path_that_are_not_good_are_planned_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches rows that were weighted at once, and badly, kept for more of them."""
    target: Any = object()
    blend = Blend((Prior(),), np.ones(1))
    first = Planned(block_of(), find_stages().plan(16), ASKED_FOR, blend=blend, target=target)
    other = Planned(block_of(), find_stages().plan(40), ASKED_FOR, find_stages())
    spreads = {16: POOR, 40: GOOD}

    def run(chains: hais.Chains, planned: Planned) -> list[Any]:
        spread = spreads[planned.plan.n_temperatures]
        weights = make_rng("anew", spread).normal(0, spread, (chains.call.settings.chains, N))
        return [SimpleNamespace(log_weight=weight) for weight in weights]

    monkeypatch.setattr(hais.Chains, "until", run)
    settings = HaisSettings(draws=N, chains=2)
    chains = hais.Chains(Call(settings, generators_from(1)))
    assert chains.twice(first, [lambda _: other])[0] is other
    # so is another plan that says that it may be made in another way, after a longer run of it
    nested = Planned(block_of(), find_stages().plan(16), ASKED_FOR, find_stages(), target=target)
    spreads[16 * MAX_GROWTH] = POOR
    assert chains.twice(nested, [lambda _: other])[0] is other
    spreads[16] = GOOD
    assert chains.twice(first, [lambda _: other])[0] is first
