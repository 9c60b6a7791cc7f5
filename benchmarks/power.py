"""How likely a default call finds a mode: by its share of the prior, its share of Z, dimensions.

The prior is ``N(0, I)``. Beside a broad mode at its centre there is a narrow one, so wide that the
region where it is the larger of the two, from which gradients lead to it, has the share of the
prior that is asked for. Found is a mode to which the posterior draws give at least a third of what
it has. Run it with ``uv run benchmarks/power.py --page``; ``--results`` names the file of JSON
lines from which it continues, and every run of it adds what is missing up to ``--replicates``.
"""

import argparse
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtri
from scipy.stats import ncx2

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from generated.mixtures import mixture_model, normal_log_densities
from tables.wrong_numbers import write_table

import pymc_logz as lz

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "power.jsonl"
FIGURE = ROOT / "docs" / "_static" / "power.png"
BASINS, MASSES, DIMS = (0.001, 0.003, 0.01, 0.03), (0.03, 0.1, 0.25, 0.5), (1, 2, 4, 8, 16)
BROAD = 0.5
"""Standard deviation of the broad mode."""
FARTHEST = 2.8
"""Largest distance of the narrow mode: beyond it, no basin in 16 dimensions has 3% of the prior."""
FOUND = 1 / 3
"""Share of the mode's mass that draws must give it."""
ALONE = {"progressbar": False, "cores": 1}


@dataclass(frozen=True)
class Target:
    """A broad and a narrow mode; log Z is 0.

    Parameters
    ----------
    basin
        Share of the prior in the narrow mode's region.
    mass
        Share of Z in the narrow mode.
    dims
        Dimensions.
    """

    basin: float
    mass: float
    dims: int

    @cached_property
    def distance(self) -> float:
        """Of the narrow mode from the centre: several times the width of the broad one."""
        return min(float(np.sqrt(self.dims + 2)), FARTHEST)

    def share_of_prior(self, width: float) -> float:
        """Of the ball in which a narrow mode of this width is the larger of the two."""
        a = width**-2 - BROAD**-2
        log_odds = np.log(self.mass / (1 - self.mass))
        level = 2 * log_odds + 2 * self.dims * np.log(BROAD / width)
        level += self.distance**2 / (BROAD**2 * width**2 * a)
        centre = self.distance / (width**2 * a)
        return float(ncx2.cdf(level / a, self.dims, centre**2)) if level > 0 else 0.0

    @cached_property
    def width(self) -> float:
        """The least width with the share of the prior that is asked for."""
        widths = np.geomspace(1e-6, 0.99 * BROAD, 400)
        shares = np.array([self.share_of_prior(width) for width in widths])
        first = int(np.argmax(shares >= self.basin))
        if first == 0:
            raise ValueError(f"no width has a basin of {self.basin} with {self}")
        return float(
            brentq(lambda w: self.share_of_prior(w) - self.basin, widths[first - 1], widths[first])
        )

    @cached_property
    def modes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means (2, d), standard deviations (2, d) and shares (2,); the narrow mode is second."""
        means = np.zeros((2, self.dims))
        # along no axis, so that nothing that looks along axes has it easier
        means[1] = self.distance / np.sqrt(self.dims)
        sds = np.repeat([[BROAD], [self.width]], self.dims, axis=1)
        return means, sds, np.array([1 - self.mass, self.mass])

    def model(self) -> pm.Model:
        """Prior and potential."""
        return mixture_model(*self.modes, 0.0)

    def log_parts(self, x: np.ndarray) -> np.ndarray:
        """Log density of each mode with its share, shape (n, 2)."""
        means, sds, shares = self.modes
        return np.log(shares) + normal_log_densities(x, means, sds)

    def seen(self, x: np.ndarray, weights: np.ndarray | None = None) -> float:
        """What part of its mass draws (n, d) of the posterior give the narrow mode."""
        parts = self.log_parts(x)
        second = np.exp(parts[:, 1] - logsumexp(parts, axis=1))
        return float(np.average(second, weights=weights)) / self.mass


@dataclass(frozen=True)
class Found:
    """What a method says of a target."""

    seen: float
    log_z: float
    mcse: float = np.nan
    status: str = ""


def of_tree(target: Target, tree) -> Found:
    """Draws and the recommended number of a tree of ours."""
    first = tree["evidence"].to_dataset().isel(estimator=0)
    log_z, mcse, status = float(first["log_z"]), float(first["mcse"]), str(first["status"].item())
    if "posterior" not in tree.children:
        return Found(0.0, log_z, mcse, status)
    return Found(target.seen(rows_of(tree)), log_z, mcse, status)


def rows_of(tree) -> np.ndarray:
    """Draws of all chains, shape (n, d)."""
    x = tree["posterior"]["x"].values
    x = x.reshape(-1, x.shape[-1])
    return x[np.isfinite(x).all(1)]


def by_hais(target: Target, model: pm.Model, seed: int) -> Found:
    """`sample_hais`."""
    return of_tree(target, lz.sample_hais(model=model, random_seed=seed, **ALONE))


def by_evidence(target: Target, model: pm.Model, seed: int) -> Found:
    """`evidence`."""
    return of_tree(target, lz.evidence(model, random_seed=seed, **ALONE))


def by_smc(target: Target, model: pm.Model, seed: int) -> Found:
    """``pm.sample_smc``."""
    tree = pm.sample_smc(model=model, random_seed=seed, **ALONE)
    last = [chain[-1] for chain in np.asarray(tree["sample_stats"]["log_marginal_likelihood"])]
    log_z = logsumexp(np.array(last, dtype=float)) - np.log(len(last))
    return Found(target.seen(rows_of(tree)), float(log_z), float(np.std(last)))


def by_dynesty(target: Target, model: pm.Model, seed: int) -> Found:
    """dynesty's ``NestedSampler``."""
    import dynesty

    def log_likelihood(x: np.ndarray) -> float:
        log_prior = -0.5 * x @ x - 0.5 * x.size * np.log(2 * np.pi)
        return float(logsumexp(target.log_parts(x[None])[0]) - log_prior)

    rng = np.random.default_rng(seed)
    sampler = dynesty.NestedSampler(log_likelihood, ndtri, target.dims, rstate=rng)
    sampler.run_nested(print_progress=False)
    found = sampler.results
    seen = target.seen(found.samples, found.importance_weights())
    return Found(seen, float(found.logz[-1]), float(found.logzerr[-1]))


METHODS: dict[str, Callable[[Target, pm.Model, int], Found]] = {
    "sample_hais": by_hais,
    "evidence": by_evidence,
    "pm.sample_smc": by_smc,
    "dynesty": by_dynesty,
}


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=[*METHODS], default=[*METHODS])
    parser.add_argument("--basins", nargs="+", type=float, default=BASINS)
    parser.add_argument("--masses", nargs="+", type=float, default=MASSES)
    parser.add_argument("--dims", nargs="+", type=int, default=DIMS)
    parser.add_argument("--replicates", type=int, default=2, help="calls for each target")
    parser.add_argument("--minutes", type=float, default=np.inf, help="when to stop")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of JSON lines")
    parser.add_argument("--page", action="store_true", help="write the table and the figure")
    return parser.parse_args()


def main() -> None:
    """Run what the file of results lacks, and show what it has."""
    given = arguments()
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    end = time.monotonic() + 60 * given.minutes
    with given.results.open("a") as file:
        for record in missing(given, read(given.results)):
            file.write(json.dumps(record) + "\n")
            file.flush()
            if time.monotonic() >= end:
                break
    records = read(given.results)
    lines = table(records)
    print("\n".join(lines))
    if given.page:
        write_table("power", lines)
        draw(records)


def read(path: Path) -> list[dict]:
    """Records that a file has."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def missing(given: argparse.Namespace, records: Sequence[dict]) -> Iterator[dict]:
    """Records that are not there yet; the first call of each target by each method comes first."""
    done = {(r["method"], r["basin"], r["mass"], r["dims"], r["seed"]) for r in records}
    targets = [Target(*one) for one in product(given.basins, given.masses, given.dims)]
    models: dict[Target, pm.Model] = {}
    for seed, target, method in product(range(given.replicates), targets, given.methods):
        if (method, target.basin, target.mass, target.dims, seed) not in done:
            model = models.setdefault(target, target.model())
            began = time.perf_counter()
            try:
                found = METHODS[method](target, model, seed)
            except lz.PilotError as error:
                found = Found(0.0, np.nan, status=f"refused: {error}"[:100])
            seconds = round(time.perf_counter() - began, 3)
            about = {"method": method, **asdict(target), "width": target.width, "seed": seed}
            yield {**about, **asdict(found), "seconds": seconds}


def rate(records: Sequence[dict]) -> tuple[float, float, float]:
    """Share of calls that found the mode, and Wilson's interval of 95% for it."""
    k, n = sum(r["seen"] >= FOUND for r in records), len(records)
    squared = 1.96**2
    centre = (k + squared / 2) / (n + squared)
    half = 1.96 * np.sqrt(k * (n - k) / n + squared / 4) / (n + squared)
    return k / n, centre - half, centre + half


def table(records: Sequence[dict]) -> list[str]:
    """Lines of the table: by method and share of the prior, a column for each dimension."""
    dims = sorted({r["dims"] for r in records})
    names = ["method", "basin", *(f"d = {d}" for d in dims), "all", "lost with `ok`", "seconds"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for method, basin in product(METHODS, sorted({r["basin"] for r in records})):
        own = [r for r in records if r["method"] == method and r["basin"] == basin]
        if not own:
            continue
        cells = [f"`{method}`", f"{100 * basin:g}%"]
        cells += [_cell([r for r in own if r["dims"] == d]) for d in dims] + [_cell(own)]
        lost = sum(r["seen"] < FOUND and r["status"] == "ok" for r in own)
        cells += [str(lost) if own[0]["status"] else "–"]
        cells.append(f"{np.median([r['seconds'] for r in own]):.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cell(records: Sequence[dict]) -> str:
    return f"{sum(r['seen'] >= FOUND for r in records)} of {len(records)}" if records else "–"


def draw(records: Sequence[dict]) -> None:
    """Write the figure: a panel for each dimension, a line for each method."""
    import matplotlib.pyplot as plt

    dims = sorted({r["dims"] for r in records})
    figure, panels = plt.subplots(
        1, len(dims), figsize=(2.4 * len(dims), 2.8), sharey=True, squeeze=False
    )
    for panel, d in zip(panels[0], dims, strict=True):
        for i, method in enumerate(METHODS):
            own = [r for r in records if r["method"] == method and r["dims"] == d]
            basins = sorted({r["basin"] for r in own})
            if not own:
                continue
            p, low, high = np.array(
                [rate([r for r in own if r["basin"] == basin]) for basin in basins]
            ).T
            x = 100 * np.array(basins) * 1.06 ** (i - 1.5)
            errors = np.maximum([p - low, high - p], 0)
            panel.errorbar(x, p, errors, fmt="o-", ms=3, lw=1.2, color=f"C{i}", label=method)
        panel.set(xscale="log", title=f"{d} dimension{'s' * (d > 1)}", ylim=(-0.03, 1.03))
        panel.set_xticks([100 * b for b in BASINS], [f"{100 * b:g}" for b in BASINS])
        panel.minorticks_off()
    panels[0, 0].set_ylabel("share of calls that find it")
    figure.supxlabel("share of the prior in the mode's basin (%)", fontsize="medium")
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    own = panels[0, 0].get_legend_handles_labels()
    figure.legend(*own, ncols=len(METHODS), loc="upper right", frameon=False, fontsize="small")
    figure.savefig(FIGURE)


if __name__ == "__main__":
    main()
