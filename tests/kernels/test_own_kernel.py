"""A user's kernel, as docs/contributing/kernels.md says to write one, is as good as ours."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support import pymc_models as models
from support.checks import assert_detects
from support.integer_targets import check_count
from support.own_kernels import HeavyWalk, page
from support.paths_with_exact_draws import TARGETS

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.kernels import Compose, Hamiltonian, Kernel, KernelDefaults, check_kernel
from pymc_logz.kernels.choice import kernel_record
from pymc_logz.paths.geometric import Site
from pymc_logz.runners.block import Block

PAGE = "contributing/kernels.md"
COUNT = (Site(0, 0, None),)
EXACT = float(stats.norm.logpdf(0.7, 0, np.sqrt(2)))
"""Log Z of `models.normal_normal`."""


def test_page_runs_as_it_is_printed() -> None:
    """Catches a skeleton that does not work when followed, in `sample_hais` or in tempering.

    The page itself compares log Z of both runs with the exact one.
    """
    for tree in page(PAGE).runs.values():
        assert json.loads(tree.attrs["settings"])["kernel"]["name"] == "Barker"
        assert "posterior" in tree.children


@pytest.mark.parametrize("name", TARGETS)
def test_kernel_of_the_page_is_invariant(name: str) -> None:
    """Catches a page that teaches a kernel with a wrong acceptance, slope or evaluation."""
    own = page(PAGE)
    own.check_own_kernel(own.Barker(dense=False), name)


def uncorrected() -> Any:
    """The kernel of the page, accepted as if its jumps were symmetric."""

    @dataclass(frozen=True)
    class Uncorrected(page(PAGE).Barker):
        def log_ratio_of_jumps(self, jump: Any, here: Any, there: Any) -> Any:
            return 0.0

    return Uncorrected(dense=False)


@pytest.mark.parametrize("name", ["gaussian", "log_gamma"])
def test_contract_detects_a_forgotten_term(name: str) -> None:
    """Catches a contract without power over kernels from outside."""
    check = partial(page(PAGE).check_own_kernel, name=name, betas=(1.0,), step_sizes=(1.0,))
    assert_detects(check, uncorrected())


@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_asymmetric_proposal_of_the_page_is_invariant(
    beta: float, rng: np.random.Generator
) -> None:
    """Catches a page that teaches a decision without the proposal's own density."""
    check_count(page(PAGE).PoissonProposal(5.0, COUNT), beta, rng)


def test_a_forgotten_proposal_density_is_found(rng: np.random.Generator) -> None:
    """Positive control."""

    @dataclass(frozen=True)
    class Symmetric(page(PAGE).PoissonProposal):
        def log_proposal(self, count: Any) -> Any:
            return 0.0

    assert_detects(lambda kernel: check_count(kernel, 1.0, rng), Symmetric(5.0, COUNT))


def test_whole_numbers_need_sites() -> None:
    """Catches a kernel that would be asked to move entries that it cannot be told of."""

    class Homeless(HeavyWalk):
        moves_integers = True

    model = energies.thinned_poisson().model
    with pytest.raises(
        TypeError, match="Homeless moves integers, but has no field for their positions"
    ):
        models.quick(model, kernel=Compose({"n": Homeless()}))


@pytest.mark.usefixtures("no_look_from_prior")
def test_protocol_needs_no_inheritance() -> None:
    """Catches a list of classes where the protocol is meant, and records that need a dataclass."""
    kernel: Kernel = HeavyWalk()
    page(PAGE).check_own_kernel(kernel, "bimodal", betas=(0.6,))
    model = models.normal_normal()
    hais = models.quick(model, kernel=kernel, betas=32, draws=200)
    tempered = lz.sample_tempered(
        300, 2, model=model, kernel=kernel, betas=4, cores=1, random_seed=1, progressbar=False
    )
    for tree in (hais, tempered):
        log_z, error, _ = models.log_z_of(tree)
        assert abs(log_z - EXACT) < 4 * error
        record = json.loads(tree.attrs["settings"])["kernel"]
        assert record == {"name": "HeavyWalk", "freedom": 3, "scale": None, "dense": False}


def test_record_of_settings_that_are_not_plain() -> None:
    """Catches settings that cannot be written to a file."""
    record = kernel_record(HeavyWalk(scale=np.ones(2)))
    assert record["scale"] == "array([1., 1.])"
    assert kernel_record(Hamiltonian(scale=(1.0, 2.0)))["scale"] == (1.0, 2.0)


class Half(KernelDefaults):
    """Not yet a kernel: has no step, and no scales."""

    step_size = None
    draw_noise = None  # type: ignore[assignment]


class Short(HeavyWalk):
    """Has a step that takes less than it is given."""

    def step(self, path: Any, state: Any) -> Any:  # type: ignore[override]
        return state, None


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            Half(),
            r"lacks scale, dense, draw_noise\(rng, n_moves, n_rows, n_dims\), "
            r"step\(path, state, move, noise\)$",
        ),
        (Short(), r"lacks step\(path, state, move, noise\)$"),
        (Half, r"this is a class: write Half\(\)"),
        (Hamiltonian, r"this is a class: write Hamiltonian\(\)"),
        (3, r"kernel=3 is not a kernel.*lacks step_size, .*step\(path, state, move, noise\)$"),
    ],
    ids=["half", "short", "class", "own class", "number"],
)
def test_what_is_missing_is_named(kernel: Any, message: str) -> None:
    """Catches an AttributeError from deep inside in place of what the author has yet to write."""
    with pytest.raises(TypeError, match=message):
        check_kernel(kernel)


class Unshaped(HeavyWalk):
    """Draws noise without an axis for moves."""

    def draw_noise(self, rng: Any, n_moves: int, n_rows: int, n_dims: int) -> Any:
        return (rng.standard_normal((n_rows, n_dims)),)


class Whole(HeavyWalk):
    """Draws whole numbers."""

    def draw_noise(self, rng: Any, n_moves: int, n_rows: int, n_dims: int) -> Any:
        return (rng.integers(2, size=(n_moves, n_rows)),)


@pytest.mark.parametrize("kernel", [Unshaped(), Whole()], ids=["axes", "dtype"])
def test_noise_is_checked(kernel: Any) -> None:
    """Catches noise that would be broadcast over moves, or fail in the compiler."""
    with pytest.raises(TypeError, match=r"draw_noise of \w+ returned .*float64 arrays"):
        Block(TARGETS["gaussian"].path(), kernel, 16)
