"""Bennett's acceptance ratio on known work; the bridge of skewed targets, correlated chains."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.signal import lfilter
from support.checks import (
    CheckFailedError,
    assert_detects,
    check_coverage,
    check_means,
    make_rng,
)

from pymc_logz.estimators import (
    LogZEstimate,
    bar_log_z,
    bridge_log_z,
    importance_log_z,
    reverse_log_z,
)
from pymc_logz.estimators import bridge as module

LOG_Z = -7.3


def normal_weights(
    rng: np.random.Generator, sigma: float, n_forward: int, n_reverse: int
) -> tuple[np.ndarray, np.ndarray]:
    """Forward and reverse log weights that obey Crooks's relation for log Z exactly."""
    half = 0.5 * sigma**2
    forward = rng.normal(LOG_Z - half, sigma, n_forward)
    return forward, rng.normal(-LOG_Z - half, sigma, n_reverse)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("sizes", [(300, 300), (500, 60)])
def test_bar_is_right_and_its_error_honest(sigma: float, sizes: tuple[int, int]) -> None:
    """Would catch a sign of work, a share of forward rows upside down, or an error of one side."""
    rng = make_rng("bar", sigma, sizes)
    estimates = [bar_log_z(*normal_weights(rng, sigma, *sizes)) for _ in range(400)]
    log_z = np.array([estimate.log_z for estimate in estimates])
    mcse = np.array([estimate.mcse for estimate in estimates])
    # log Z of a finite run is biased by about its variance
    assert abs(log_z.mean() - LOG_Z) < 5 * log_z.std() / 20 + (mcse**2).mean()
    check_coverage(np.abs(log_z - LOG_Z) < 1.96 * mcse)


def test_bar_beats_both_directions() -> None:
    """Would catch a bridge that uses one set of weights only."""
    rng = make_rng("bar beats")
    runs = [normal_weights(rng, 1.0, 200, 200) for _ in range(200)]
    errors = {
        "bar": [bar_log_z(*run).log_z for run in runs],
        "forward": [importance_log_z(run[0]).log_z for run in runs],
        "reverse": [reverse_log_z(run[1]).log_z for run in runs],
    }
    spread = {name: np.std(values) for name, values in errors.items()}
    assert spread["bar"] < 0.9 * min(spread["forward"], spread["reverse"])


def test_reverse_weights_average_to_the_inverse() -> None:
    """Would catch a reverse estimate with the sign of the forward one."""
    _, reverse = normal_weights(make_rng("reverse"), 0.5, 2, 4000)
    check_means({"1/Z": np.exp(reverse + LOG_Z)}, 1.0)
    estimate = reverse_log_z(reverse, log_z_reference=2.0)
    assert abs(estimate.log_z - LOG_Z - 2.0) < 5 * estimate.mcse


def test_a_constant_shifts_log_z_and_nothing_else() -> None:
    """Would catch arithmetic outside the log domain."""
    forward, reverse = normal_weights(make_rng("shift"), 1.0, 100, 150)
    plain, shifted = bar_log_z(forward, reverse), bar_log_z(forward + 900, reverse - 900)
    assert shifted.log_z == pytest.approx(plain.log_z + 900, abs=1e-9)
    assert shifted.mcse == pytest.approx(plain.mcse, rel=1e-6)


def test_no_overlap_gives_no_number() -> None:
    """Would catch a number, with an error of zero, where the two sets do not meet."""
    rng = make_rng("no overlap")
    estimate = bar_log_z(rng.normal(-500, 1, 100), rng.normal(-500, 1, 100))
    assert estimate.status == "no_overlap"
    assert np.isnan(estimate.log_z)
    nothing = np.full(10, -np.inf)
    assert bar_log_z(nothing, nothing).status == "no_overlap"


@pytest.mark.parametrize("bad", [np.array([1.0]), np.array([1.0, np.nan])])
def test_bad_weights_are_refused(bad: np.ndarray) -> None:
    """Would catch a NaN that turns into a number."""
    good = np.zeros(10)
    with pytest.raises(ValueError, match="forward has"):
        bar_log_z(bad, good)
    with pytest.raises(ValueError, match="reverse has"):
        bar_log_z(good, bad)


def test_weights_of_any_size_have_a_bridge() -> None:
    """Catches a root that is sought for a hundred steps between 1e-12 and 1e300."""
    forward, reverse = make_rng("huge").normal([[2.875], [-3.125]], 0.5, size=(2, 100))
    estimate = bar_log_z(np.append(forward, -1e300), reverse)
    assert abs(estimate.log_z - 3 + np.log(101 / 100)) < 4 * estimate.mcse


TARGET_LOG_Z = -41.7


@dataclass(frozen=True)
class Case:
    """A target with log Z = -41.7, a proposal, and chains whose neighbours correlate."""

    target: Any
    proposal: Any
    correlation: float = 0.0
    shape: tuple[int, int] = (4, 250)
    n_proposal: int = 1000

    def chains(self, rng: np.random.Generator) -> np.ndarray:
        """Exact draws of the target, an AR(1) process turned by its distribution function."""
        noise = rng.standard_normal(self.shape)
        noise[:, 1:] *= np.sqrt(1 - self.correlation**2)
        walk = lfilter([1.0], [1.0, -self.correlation], noise, axis=1)
        return self.target.isf(stats.norm.sf(walk))

    def estimate(self, rng: np.random.Generator) -> LogZEstimate:
        """One run."""
        posterior = self.chains(rng)
        proposal = self.proposal.rvs(self.n_proposal, random_state=rng)
        return bridge_log_z(
            self.target.logpdf(posterior) + TARGET_LOG_Z,
            self.proposal.logpdf(posterior),
            self.target.logpdf(proposal) + TARGET_LOG_Z,
            self.proposal.logpdf(proposal),
        )


SKEWED = Case(stats.loggamma(0.7), stats.norm(-1.2, 1.7))
CASES = {
    "skewed": SKEWED,
    "skewed, autocorrelated": replace(SKEWED, correlation=0.9, shape=(4, 1000)),
    "heavy tails": Case(stats.t(1.5), stats.norm(0, 1.5), correlation=0.5, shape=(4, 500)),
    "proposal with heavy tails": Case(stats.norm(3, 0.5), stats.t(2, 2.5, 1.0), correlation=-0.5),
    "one-sided": Case(stats.gamma(1.3), stats.norm(1.5, 1.5), correlation=0.7, shape=(4, 500)),
    "few proposals": replace(SKEWED, n_proposal=200, correlation=0.5, shape=(2, 2000)),
}


def check_case(case: Case, n: int, label: str) -> None:
    """Fail unless estimates are right on average and intervals cover as they say."""
    rng = make_rng("bridge", label)
    found = [case.estimate(rng) for _ in range(n)]
    assert all(one.status == "ok" for one in found)
    error = np.array([one.log_z for one in found]) - TARGET_LOG_Z
    mcse = np.array([one.mcse for one in found])
    print(f"{label}: sd {error.std():.4f}, mean mcse {mcse.mean():.4f}, bias {error.mean():.4f}")
    print(f"  coverage {np.mean(np.abs(error) < 1.96 * mcse):.3f}")
    # log Z of a finite run is biased by about its variance
    if abs(error.mean()) > 4.5 * error.std() / np.sqrt(n) + (mcse**2).mean():
        raise CheckFailedError(f"bias {error.mean()}")
    check_coverage(np.abs(error) < 1.96 * mcse)


@pytest.mark.slow
@pytest.mark.parametrize("label", CASES)
def test_bridge_is_right_and_its_error_honest(label: str) -> None:
    """Would catch a share upside down, a missing density, an error blind to autocorrelation."""
    check_case(CASES[label], 400, label)


def test_a_small_sweep_covers() -> None:
    """The same on fewer replicates of the hardest case."""
    label = "skewed, autocorrelated"
    check_case(CASES[label], 60, label)


def test_an_error_blind_to_autocorrelation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a sweep that cannot fail."""
    monkeypatch.setattr(module, "effective_draws", lambda values, tails: float(values.size))
    case = replace(SKEWED, correlation=0.97, shape=(4, 1000))
    assert_detects(lambda case: check_case(case, 60, "blind"), case)


def test_overlap_and_error_are_those_of_the_theory() -> None:
    """Would catch a wrong overlap: it and the sizes give the error of independent draws."""
    case = replace(SKEWED, shape=(4, 5000), n_proposal=30_000)
    one = case.estimate(make_rng("overlap"))
    ess = one.details["posterior_ess"]
    share = ess / (ess + case.n_proposal)

    def integrand(x: float) -> float:
        p, q = case.target.pdf(x), case.proposal.pdf(x)
        return p * q / (share * p + (1 - share) * q)

    overlap = quad(integrand, -15, 5)[0]
    assert one.details["overlap"] == pytest.approx(overlap, abs=0.01)
    # Meng & Wong (1996), eq. 3.2
    variance = (1 / overlap - 1) / (share * (1 - share) * (ess + case.n_proposal))
    assert one.mcse == pytest.approx(np.sqrt(variance), rel=0.05)


def test_solution_is_the_fixed_point_of_meng_and_wong() -> None:
    """Would catch a root of another equation: their iteration, as printed, must stay there."""
    rng = make_rng("fixed point")
    case = replace(SKEWED, shape=(3, 200), n_proposal=350)
    posterior, proposal = case.chains(rng), case.proposal.rvs(350, random_state=rng)
    ratio_p = case.target.logpdf(posterior) - case.proposal.logpdf(posterior)
    ratio_q = case.target.logpdf(proposal) - case.proposal.logpdf(proposal)
    one = module.solve_bridge(ratio_p, ratio_q, 410.0)
    assert one is not None
    s1 = 410.0 / 760.0
    l1, l2, r = np.exp(ratio_p), np.exp(ratio_q), 1.0
    for _ in range(500):
        numerator = np.mean(l2 / (s1 * l2 + (1 - s1) * r))
        r = numerator / np.mean(1 / (s1 * l1 + (1 - s1) * r))
    assert one.log_z == pytest.approx(np.log(r), abs=1e-9)


def test_constants_order_of_chains_and_reference() -> None:
    """Would catch arithmetic outside the log domain, and a role of the chains' order."""
    rng = make_rng("constants")
    posterior, proposal = SKEWED.chains(rng), SKEWED.proposal.rvs(300, random_state=rng)
    f = [SKEWED.target.logpdf(posterior), SKEWED.target.logpdf(proposal)]
    q = [SKEWED.proposal.logpdf(posterior), SKEWED.proposal.logpdf(proposal)]
    plain = bridge_log_z(f[0], q[0], f[1], q[1])
    shifted = bridge_log_z(f[0] - 5e3, q[0], f[1] - 5e3, q[1], log_z_reference=2.0)
    swapped = bridge_log_z(f[0][::-1], q[0][::-1], f[1][::-1], q[1][::-1])
    assert shifted.log_z == pytest.approx(plain.log_z - 5e3 + 2.0, abs=1e-7)
    assert shifted.mcse == pytest.approx(plain.mcse, rel=1e-6)
    assert swapped.log_z == pytest.approx(plain.log_z, abs=1e-9)
    assert swapped.mcse == pytest.approx(plain.mcse, rel=1e-9)


def test_proposals_outside_the_target_count() -> None:
    """Would catch failed proposals that are left out: log Z would be high by log 2 here."""
    rng = make_rng("outside")
    posterior = rng.uniform(0, 1, (4, 500))
    proposal = rng.uniform(-1, 1, 2000)
    inside = np.where(proposal > 0, 0.0, -np.inf)
    half = np.full(2000, np.log(0.5))
    one = bridge_log_z(np.zeros((4, 500)), half.reshape(4, 500), inside, half)
    assert abs(one.log_z) < 4 * one.mcse
    assert one.mcse < 0.05
    assert one.details["share_outside"] == pytest.approx(0.5, abs=0.05)
    assert posterior.shape == (4, 500)


def test_posterior_draws_outside_the_proposal_count() -> None:
    """Would catch a proposal that must cover: a chart may reach half of the target only."""
    rng = make_rng("chart")
    posterior, proposal = rng.uniform(0, 1, (4, 500)), rng.uniform(0, 0.5, 2000)
    reached = np.where(posterior < 0.5, np.log(2.0), -np.inf)
    one = bridge_log_z(np.zeros((4, 500)), reached, np.zeros(2000), np.full(2000, np.log(2.0)))
    assert proposal.max() <= 0.5
    assert abs(one.log_z) < 4 * one.mcse
    assert one.mcse < 0.05


def test_equal_densities_are_exact() -> None:
    """Would catch a division by zero where nothing varies."""
    one = bridge_log_z(np.full((2, 10), 3.0), np.zeros((2, 10)), np.full(30, 3.0), np.zeros(30))
    assert one.log_z == pytest.approx(3.0, abs=1e-9)
    assert one.mcse < 1e-9
    assert one.details["overlap"] == pytest.approx(1.0)


def test_posterior_and_proposal_that_do_not_meet_give_no_number() -> None:
    """Would catch a number with a small error where the two sets of draws do not meet."""
    rng = make_rng("no overlap")
    far = Case(stats.norm(0, 1), stats.norm(30, 1)).estimate(rng)
    assert (far.status, np.isnan(far.log_z)) == ("poor_overlap", True)
    nowhere = bridge_log_z(
        np.zeros((2, 50)), np.zeros((2, 50)), np.full(100, -np.inf), np.zeros(100)
    )
    assert (nowhere.status, np.isnan(nowhere.log_z)) == ("poor_overlap", True)
    apart = bridge_log_z(np.zeros((2, 50)), np.full((2, 50), -np.inf), np.zeros(100), np.zeros(100))
    assert (apart.status, np.isnan(apart.log_z)) == ("poor_overlap", True)
    shaky = Case(stats.norm(0, 1), stats.norm(4.2, 1)).estimate(rng)
    assert shaky.status == "low_overlap"


def test_chains_that_disagree_or_stick_are_short() -> None:
    """Would catch an error bar of chains that are in different places."""
    rng = make_rng("stuck")
    case = replace(SKEWED, correlation=0.999, shape=(4, 250))
    assert case.estimate(rng).status == "short_run"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: np.zeros((2, 9))}, "both must be"),
        ({0: np.zeros((2, 3)), 1: np.zeros((2, 3))}, "at least 4 draws"),
        ({0: np.full((2, 10), -np.inf)}, "positive density"),
        ({1: np.full((2, 10), np.nan)}, "proposal_at_posterior are NaN"),
        ({2: np.full(20, np.nan)}, "target_at_proposal are NaN"),
        ({2: np.full(20, np.inf)}, "target_at_proposal are NaN or infinite"),
        ({3: np.full(20, -np.inf)}, "proposal_at_proposal are NaN"),
        ({3: np.zeros(19)}, "both need one entry"),
    ],
)
def test_bad_densities_are_refused(change: dict[int, np.ndarray], message: str) -> None:
    """Would catch a NaN that turns into a number."""
    arguments = [np.zeros((2, 10)), np.zeros((2, 10)), np.zeros(20), np.zeros(20)]
    for place, array in change.items():
        arguments[place] = array
    with pytest.raises(ValueError, match=message):
        bridge_log_z(*arguments)
