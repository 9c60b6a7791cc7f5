"""Numbers of the papers' claims that follow from the data files: value, and ends of its interval.

Nothing but NumPy is needed here, so that the page of claims can be made without the package.
"""

import json
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
N_RESAMPLED, FEWEST = 4000, 3


def units_of(name):
    """What is kept in a data file, and its units by method and size, one of each replicate."""
    kept = json.loads((RESULTS / f"{name}.json").read_text())
    return kept, by_size(kept)


def by_size(kept):
    """Units of what is kept, by method and size, one of each replicate."""
    found = {}
    for key, unit in kept["units"].items():
        method, size, _ = key.rsplit(" ", 2)
        found.setdefault((method, int(size)), []).append(unit)
    return found


def interval(statistic, *samples, error=0):
    """A statistic of samples of replicates, with ends of 95% by resampling each; none of few.

    The truth that all samples are measured from may itself have an error.
    """
    if min(map(len, samples)) < FEWEST:
        return float(statistic(*samples)), None, None
    rng = np.random.default_rng(1)
    again = []
    for _ in range(N_RESAMPLED):
        off = error * rng.standard_normal() if error else 0
        some = (one[rng.integers(len(one), size=len(one))] - off for one in samples)
        again.append(statistic(*some))
    return float(statistic(*samples)), *map(float, np.quantile(again, [0.025, 0.975]))


def speed_of_constrained_hmc(radius):
    """Effective draws per second of constrained HMC over those of ABC, of the rate worst for it."""
    _, units = units_of("lotka_volterra_speed")
    ours, abc = (
        np.array([np.array(unit["ess"]) / unit["seconds"] for unit in units[key]])
        for key in (("ConstrainedHMC", 0), ("ABC slices", radius))
    )
    return interval(lambda a, b: (a.mean(axis=0) / b.mean(axis=0)).min(), ours, abc)


def error_of_hais(model, n):
    """By how many nats HAIS with so many temperatures is off on average."""
    kept, units = units_of("hais_at_size")
    found = units[model, n]
    if "off" in found[0]:
        return interval(lambda x: abs(x.mean()), np.concatenate([unit["off"] for unit in found]))
    exact = kept[model.rsplit(", ", 1)[0]]["log_z"]
    return interval(lambda x: abs(x.mean()), np.array([unit["log_z"] for unit in found]) - exact)


def ten_times_fewer(model, fast, slow, n):
    """Error of the fast moves with n temperatures over that of the slow ones with ten times n."""
    kept, units = units_of("hais_at_size")
    exact = kept[model]["log_z"]
    off = (
        np.array([unit["log_z"] for unit in units[f"{model}, {moves}", size]]) - exact
        for moves, size in ((fast, n), (slow, 10 * n))
    )
    return interval(ratio_of_errors, *off)


def long_runs(truth):
    """Log Z and errors of the long tempered run, and of annealing in both directions."""
    return np.array([(truth[name]["log_z"], truth[name]["mcse"]) for name in ("RTS", "bar")]).T


def pooled(truth):
    """Mean of the long runs by their errors, and its own error."""
    value, error = long_runs(truth)
    weight = error**-2
    return float(value @ weight / weight.sum()), float(weight.sum() ** -0.5)


def compared_at_784(statistic, *pairs, machine="mnist"):
    """A statistic of errors of log Z by pairs of method and sweeps, of a machine of MNIST.

    Nothing where no run of one of them is kept.
    """
    if not (RESULTS / f"rts_at_size_{machine}.json").exists():
        return None, None, None
    kept, units = units_of(f"rts_at_size_{machine}")
    if "truth" not in kept or any(one not in units for one in pairs):
        return None, None, None
    log_z, error = pooled(kept["truth"])
    off = (np.array([unit["log_z"] for unit in units[one]]) - log_z for one in pairs)
    return interval(statistic, *off, error=error)


def ten_times_fewer_sweeps(fast, slow, n, machine="mnist"):
    """Error of a method with n sweeps over that of another with ten times n, 784 visible units."""
    return compared_at_784(ratio_of_errors, (fast, n), (slow, 10 * n), machine=machine)


def ratio_of_bias(one, other, n):
    """Mean error of a method with n sweeps over that of another, 784 x 500 units."""
    return compared_at_784(lambda a, b: abs(a.mean() / b.mean()), (one, n), (other, n))


def tracked(units):
    """What was tracked, and checked by annealing, in units of 180 x 500 units that learn DNA.

    Rows (updates, 4) in the order of updates; updates with a check, and what that says.
    """
    ordered = sorted(units.items(), key=lambda item: item[0])
    rows = np.concatenate([one[0]["rows"] for (name, _), one in ordered if name == "tracked"])
    return rows, [(at, one[0]) for (name, at), one in ordered if name == "AIS"]


def cost_of_tracking():
    """Median seconds of an update over those of its Gibbs sweeps alone.

    Of the updates that were made while the machine did nothing else, as the sweeps were.
    """
    _, units = units_of("rts_tracking")
    rows, _ = tracked(units)
    alone = [one[0]["seconds"] for (name, _), one in units.items() if name == "sweeps alone"]
    return interval(lambda a, b: np.median(a) / np.median(b), rows[1:2000, 3], np.array(alone))


def error_of_tracking():
    """By how many nats the tracked log Z is off from annealing, at most, where that is ok.

    A check at the update after the last one that is kept is held against a line through ten before.
    """
    rows, checks = tracked(units_of("rts_tracking")[1])
    log_z = np.append(rows[:, 2], rows[-1, 2] + np.diff(rows[-11:, 2]).mean())
    good = [(at, one["log_z"]) for at, one in checks if at < len(log_z) and one["status"] == "ok"]
    return max(abs(log_z[at] - annealed) for at, annealed in good), None, None


def ratio_of_errors(fast, slow):
    """Root mean square error of one over that of the other."""
    return np.sqrt((fast**2).mean() / (slow**2).mean())


def judged_images(name, size=None):
    """A model of image patches, of a size or of the best one in validation; and its size."""
    found = {n: unit for (one, n), [unit] in units_of("natural_images")[1].items() if one == name}
    best = max(found, key=lambda n: found[n].get("validation", 0)) if size is None else size
    return found[best], best


def on_patches(name, size=None):
    """Log likelihood of each test patch under a model."""
    return np.array(judged_images(name, size)[0]["log_p"])


def ahead_on_patches(name, other, size=None):
    """By how many nats a model is ahead of another on the same test patches; size is the other's.

    The interval is by resampling patches, as if they were not of three photographs only.
    """
    return interval(lambda x: x.mean(), on_patches(name) - on_patches(other, size))


def ahead_of_all(name):
    """By how many nats a model is ahead of the best other."""
    names = {one for one, _ in units_of("natural_images")[1]} - {name}
    return ahead_on_patches(name, max(names, key=lambda one: on_patches(one).mean()))


def row_of_images(name):
    """What table 1 of the page says of a model: size, log likelihoods, errors, lead on patches."""
    unit, size = judged_images(name)
    apart = on_patches(name) - on_patches("experts, Laplace", 36)
    error = apart.std(ddof=1) / np.sqrt(apart.size)
    validation = f"{unit['validation']:.2f}" if "validation" in unit else ""
    mean, of_patches, of_log_z = (unit[one] for one in ("mean", "standard_error", "mcse"))
    lead = f"{apart.mean():+.1f} ± {error:.1f}"
    return f"{size} | {mean:.2f} ± {of_patches:.2f} | {validation} | {of_log_z:.2g} | {lead} |"


def row_of_mcrbm(unit):
    """What the page says of a way to learn the mean-covariance RBM."""
    three = (unit.get(f"energy of {one}") for one in ("data", "chains", "draws"))
    energies = ", ".join("-" if one is None else f"{one:.1f}" for one in three)
    each = (f"{unit[one]:.1f}" for one in ("log likelihood", "validation", "training"))
    return f"{' | '.join(each)} | {energies} | {unit['status']} |"


def speed_of_in_painting():
    """Effective draws per second of constrained HMC over those of NUTS, of the worst entry."""
    _, units = units_of("inpainting_at_size")
    ours, nuts = (
        np.array([unit["ess_per_second"] for unit in units[name, 28]])
        for name in ("ConstrainedHMC", "NUTS with the likelihood")
    )
    return interval(lambda a, b: np.exp(np.mean(np.log(a)) - np.mean(np.log(b))), ours, nuts)


def error_of_poses():
    """Error of the mean pose of constrained HMC over that of HMC after as long, three scenes."""
    _, units = units_of("pose_at_size")
    ours, hmc = (
        np.array([unit["rmse"][-1] for scene in (1, 2, 3) for unit in units[name, scene]])
        for name in ("ConstrainedHMC", "HMC")
    )
    return interval(lambda a, b: a.mean() / b.mean(), ours, hmc)
