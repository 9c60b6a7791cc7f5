"""Mixtures of kernels leave what each of them leaves, alone and in a composition."""

from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from support import pymc_models as models
from support.checks import assert_detects, make_rng
from support.integer_targets import SITES, HotGibbs, check_mixed, check_table
from support.kernel_contracts import check_invariant
from support.paths_with_exact_draws import N_ROWS, TARGETS

from pymc_logz import energies
from pymc_logz.kernels import (
    Compose,
    Gibbs,
    Hamiltonian,
    IntegerWalk,
    Kernel,
    KernelInfo,
    KernelState,
    Move,
    OneOf,
    RandomWalk,
    Slice,
    choose,
)
from pymc_logz.kernels.compose import for_variables
from pymc_logz.paths.geometric import Site
from pymc_logz.runners.block import Block

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
JUMPS = OneOf((Hamiltonian(), RandomWalk(step_size=3.0)), (0.6, 0.4))
LABEL = (Site(0, 0, 2),)


def check(kernel: Kernel, name: str, step_sizes: tuple[float, ...] = (0.5, 1.0)) -> None:
    """Fail unless the kernel leaves a target with exact draws at two betas."""
    target = TARGETS[name]
    block = Block(target.path(), kernel.resolved(target.path().n_dims), N_ROWS)
    for beta in (0.6, 1.0):
        check_invariant(
            block,
            target.sample,
            make_rng(kernel, name, beta),
            n_rows=N_ROWS,
            beta=beta,
            scale=target.scale,
            settings=product(step_sizes, [0.5]),
        )


class Better(OneOf):
    """A broken mixture: of two moves the one that ends higher."""

    def step(
        self, path: Any, state: KernelState, move: Move, noise: Any
    ) -> tuple[KernelState, KernelInfo]:
        ends = [
            kernel.step(path, state, move, own)
            for kernel, own in zip(self.kernels, noise[1:], strict=True)
        ]
        high = pt.gt(*(end.evaluation.log_ratio for end, _ in ends))
        return choose(high, ends[0][0], ends[1][0]), ends[0][1]


@pytest.mark.parametrize("name", ["bimodal", "log_gamma"])
def test_invariance(name: str) -> None:
    """Catches a choice that depends on where kernels lead, and gradients of another position."""
    check(JUMPS, name)


def test_a_choice_by_the_outcome_is_found() -> None:
    """Positive control."""
    kernel = Better((RandomWalk(dense=False), RandomWalk(step_size=2.0, dense=False)))
    assert_detects(lambda broken: check(broken, "bimodal"), kernel)


@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_invariance_of_whole_numbers(beta: float, rng: np.random.Generator) -> None:
    """Catches a kernel of a mixture that is told of no entries, or of the others' noise."""
    check_table(OneOf((Gibbs(SITES), IntegerWalk(2, SITES)), (1, 3)), beta, rng)


def test_a_broken_part_is_found(rng: np.random.Generator) -> None:
    """Positive control."""
    kernel = OneOf((Gibbs(SITES), HotGibbs(SITES)))
    assert_detects(lambda broken: check_table(broken, 1.0, rng), kernel)


def test_invariance_in_a_composition(rng: np.random.Generator) -> None:
    """Catches a kernel of a mixture that moves the variables of another part."""
    asked = Compose({"x": JUMPS, "label": OneOf((Gibbs(), IntegerWalk()))})
    kernel = for_variables(asked, ("label", "x"), LABEL).resolved(2)
    assert isinstance(kernel, Compose)
    labels = kernel.parts[1].kernel
    assert isinstance(labels, OneOf)
    assert all(one.sites == LABEL for one in labels.kernels)  # type: ignore[attr-defined]
    check_mixed(kernel, 1.0, rng)


@pytest.mark.usefixtures("no_look_from_prior")
def test_scales_of_its_own_stay_within_its_variables() -> None:
    """Catches scales of a kernel's own that move whole numbers, or variables of another part."""
    with pm.Model() as model:
        label, x, y = pm.Bernoulli("label", 0.3), pm.Normal("x"), pm.Normal("y")
        pm.Normal("seen", x + y + label, 1.0, observed=1.0)
    far = RandomWalk(step_size=1.0, scale=(7.0, 7.0, 7.0))
    kernel = Compose({"x": OneOf((Hamiltonian(), far)), "y": Slice()})
    tree = models.quick(model, kernel=kernel)
    assert set(np.unique(tree["posterior"]["label"])) <= {0, 1}
    exact = np.logaddexp(np.log(0.7) - (1 - 0) ** 2 / 6, np.log(0.3) - 0.0) - 0.5 * np.log(
        2 * np.pi * 3
    )
    models.assert_log_z(tree, float(exact), within=0.15)


@pytest.mark.slow
def test_log_z_by_a_mixture() -> None:
    """Catches a mixture whose step size is not tuned, or is that of the jumps."""
    energy = energies.skewed_bimodal()
    tree = models.quick(energy.model, kernel=JUMPS, chains=4)
    models.assert_log_z(tree, energy.log_z, within=0.15)


def test_momentum_is_refreshed_whoever_leads() -> None:
    """Catches Hamiltonian moves whose momentum is never drawn again, as another kernel leads."""
    walk, own = RandomWalk(), Hamiltonian(step_size=0.7)
    for kernel in (Compose({"x": walk, "y": own}), OneOf((walk, own))):
        share = kernel.refreshment_for(np.array([0.1, 2.0]))
        np.testing.assert_allclose(share, own.refreshment_for(np.array([0.7, 0.7])))
    assert not OneOf((walk, walk)).refreshment_for(np.ones(2)).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((Hamiltonian(),),), "must be two kernels at least"),
        (((Hamiltonian(), Gibbs()),), "some move integers and others do not"),
        (((Hamiltonian(), RandomWalk()), (1.0,)), "weights=.* must be 2 positive numbers"),
        (((Hamiltonian(), RandomWalk()), (1.0, 0.0)), "weights=.* must be 2 positive numbers"),
        (((Hamiltonian(walls=(((1.0,), 0.5),)), RandomWalk()),), "a kernel with walls"),
    ],
)
def test_what_cannot_be_mixed_is_said(arguments: tuple, message: str) -> None:
    """Catches a mixture that leaves some rows where they are, or fails in the compiler."""
    with pytest.raises(ValueError, match=message):
        OneOf(*arguments)


def test_a_name_is_no_kernel() -> None:
    """Catches an AttributeError from deep inside."""
    with pytest.raises(TypeError, match="kernel='hmc' is not a kernel"):
        OneOf(("hmc", RandomWalk()))  # type: ignore[arg-type]
