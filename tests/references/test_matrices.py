"""Bands with whole rows below them against the same matrices as they are."""

import numpy as np
import pytest
from support.checks import make_rng

from pymc_logz.references.matrices import Bands, Whole, matrices_of

N = 96


def walk(rng: np.random.Generator) -> np.ndarray:
    """Precisions of a series, each entry given the one before, shape (3, n, n)."""
    root, each = np.tile(np.eye(N), (3, 1, 1)), np.arange(N - 1)
    root[:, each + 1, each] = rng.normal(size=(3, N - 1))
    return root @ root.transpose(0, 2, 1)


def walk_with_level(rng: np.random.Generator) -> np.ndarray:
    """The same with an entry that all others depend on."""
    found = walk(rng) + 3 * np.eye(N)
    found[:, 7] += 0.1
    found[:, :, 7] += 0.1
    found[:, 7, 7] += 20.0
    return found


def groups(rng: np.random.Generator) -> np.ndarray:
    """Groups of 16 with a middle each, in any order."""
    found = np.tile(3 * np.eye(N), (3, 1, 1))
    for first in range(0, N, 16):
        found[:, first, first + 1 : first + 16] = found[:, first + 1 : first + 16, first] = 0.2
    order = rng.permutation(N)
    return found[:, order][:, :, order]


@pytest.fixture(params=[walk, walk_with_level, groups], ids=lambda make: make.__name__)
def both(request):
    """Matrices, and both ways to store them."""
    rng = make_rng("matrices", request.param.__name__)
    matrices = request.param(rng)
    places = np.array(np.nonzero(np.any(matrices, axis=0)))
    bands = Bands.of(places, N)
    assert bands is not None
    assert bands.n_bands + bands.n_below <= N / 8
    # as gradients change where all columns of a group are moved at a time
    step = rng.uniform(0.5, 2.0, (3, N))
    together = np.eye(bands.groups.n)[bands.groups.of_column]
    change = np.einsum("kij,kj,jg->kgi", matrices, step, together)
    return matrices, Whole(N, places), bands, bands.of_changes(change, step), change, step


def test_the_same_matrices(both) -> None:
    """Would catch an element that is stored twice, lost, or in another place."""
    matrices, whole, bands, stored, change, step = both
    assert np.allclose(bands.whole(stored), matrices)
    assert np.allclose(whole.of_changes(change, step), matrices)
    # an entry that all share, and the middles of six groups, cost a group each, not each column
    assert bands.groups.n <= 10
    assert np.allclose(bands.diagonal(stored), whole.diagonal(matrices))
    values = step[0]
    assert np.array_equal(bands.whole(bands.of_diagonal(values)[None])[0], np.diag(values))


def test_the_same_factors(both) -> None:
    """Would catch a triangle that is solved the wrong way round, or half of a determinant."""
    matrices, whole, bands, stored, _, _ = both
    x = make_rng("vectors").normal(size=(3, N))
    ours, theirs = bands.factors(stored), whole.factors(matrices)
    assert np.allclose(ours.solved(x), theirs.solved(x))
    for one in (ours, theirs):
        white = one.whitened(x)
        assert np.allclose((white**2).sum(axis=1), np.einsum("ki,kij,kj->k", x, matrices, x))
        assert np.allclose(one.drawn(white), x)
        assert np.allclose((one.slopes(x) * white).sum(axis=1), (x**2).sum(axis=1))
    assert np.allclose(ours.log_det(), theirs.log_det())
    one, alone = bands.factors(stored[:1]), whole.factors(matrices[:1])
    assert np.allclose(one.solved(x), alone.solved(x))
    root = one.drawn(np.eye(N)).T
    assert np.allclose(root @ root.T, np.linalg.inv(matrices[0]))


def test_what_is_not_positive(both) -> None:
    """Would catch a matrix that is changed although it is positive, or one that is not made so."""
    _, _, bands, stored, _, _ = both
    broken = stored.copy()
    broken[1] -= bands.of_diagonal(np.full(N, 2 * stored[1].max()))
    assert np.array_equal(bands.are_positive(broken), [True, False, True])
    assert np.isnan(bands.factors(broken).log_det()[1])
    mended = bands.positive(broken)
    assert np.array_equal(mended[[0, 2]], broken[[0, 2]])
    assert np.linalg.eigvalsh(bands.whole(mended)[1]).min() > 0


def test_what_is_not_finite_or_not_positive_spoils_no_other(both) -> None:
    """Catches rows that depend on those beside them: all are solved in one call."""
    _, _, bands, stored, _, _ = both
    broken, x = stored.copy(), make_rng("vectors").normal(size=(3, N))
    broken[1] -= bands.of_diagonal(np.full(N, 2 * stored[1].max()))
    bad = x.copy()
    bad[1, N // 2] = np.nan
    lost = stored.copy()
    lost[1] = np.nan
    for matrices, vectors in ((broken, x), (lost, x), (stored, bad)):
        kept = bands.are_positive(matrices) & np.isfinite(vectors).all(axis=1)
        assert np.array_equal(kept, [True, False, True])
        for one in ("solved", "drawn", "whitened", "slopes"):
            together = getattr(bands.factors(matrices), one)(vectors)
            assert np.isnan(together[~kept]).all()
            for k in np.flatnonzero(kept):
                alone = getattr(bands.factors(matrices[k : k + 1]), one)(vectors[k : k + 1])
                np.testing.assert_allclose(together[k], alone[0], rtol=1e-12)
        log_det = bands.factors(matrices).log_det()
        assert np.array_equal(np.isfinite(log_det), bands.are_positive(matrices))


def test_no_matrix_and_many_vectors_of_one(both) -> None:
    """Catches rows of which none is alive, and vectors that meet another one's matrix."""
    _, _, bands, stored, _, _ = both
    x = make_rng("vectors").normal(size=(5, N))
    for one in ("solved", "drawn", "whitened", "slopes"):
        together = getattr(bands.factors(stored[:1]), one)(x)
        alone = [getattr(bands.factors(stored[:1]), one)(row[None])[0] for row in x]
        assert np.allclose(together, alone)
        assert getattr(bands.factors(stored[:0]), one)(x[:0]).shape == (0, N)
    assert bands.factors(stored[:0]).log_det().shape == (0,)
    assert bands.positive(stored[:0]).shape == stored[:0].shape


def test_each_matrix_is_judged_alone() -> None:
    """Catches a density that depends on the rows beside it: a weight was wrong by 400 nats."""
    rng = make_rng("alone")
    root = rng.normal(size=(2, N, 4))
    # nearly flat in all but four directions, as more coefficients than data are
    found = 1e9 * root @ root.transpose(0, 2, 1) + 7 * np.eye(N)
    beside = np.concatenate([found, -found[:1], np.full((1, N, N), np.nan)])
    whole = Whole(N)
    assert np.array_equal(whole.positive(beside[:3])[:2], found)
    assert np.linalg.eigvalsh(whole.positive(beside[:3])[2]).min() > 0
    assert np.array_equal(whole.are_positive(beside), [True, True, False, False])


def test_what_has_no_bands() -> None:
    """Would catch bands that cost more than the matrix."""
    rng = make_rng("no bands")
    dense = rng.random((N, N)) < 0.3
    is_there = dense | dense.T | np.eye(N, dtype=bool)
    assert Bands.of(np.array(np.nonzero(is_there)), N) is None
    assert isinstance(matrices_of(is_there), Whole)
