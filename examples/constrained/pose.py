"""The pose of a person in three dimensions from one picture, or from two.

A generator turns 62 standard normal numbers (46 joint angles, 13 bone lengths, the position of the
camera) into a skeleton of 19 joints, which pin-hole cameras see with a little noise. The pictures
are observed exactly. One picture leaves depth open, and ``lz.ConstrainedHMC()`` draws a range of
poses that match it. NUTS samples the same model with its likelihood, and is the faster of the two
where its chains start well; but with one picture some start near poses that match it worse, and
never leave. Constrained chains would not leave either: they start elsewhere, at one of four points
that a Gauss-Newton search finds from prior draws, the denser the likelier. ``lz.bridge_sampling``
gives log p(pictures).

The setting is that of Graham & Storkey (2017), section 7.2 and figure 3, arXiv 1605.07826. They
learned the prior of 47 angles from motion capture; the table below is a stand-in written by hand.

Run it with ``uv run examples/constrained/pose.py``; it saves ``pose.png``.
"""

import time
import warnings

import matplotlib

matplotlib.use("Agg")

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from matplotlib.ticker import LogLocator

import pymc_logz as lz

SEED = 1
# a person 4 m away is 1.7 units high in the picture; the cameras are 1 m apart
FOCAL, NOISE, BASELINE = 4.0, 0.01, 1.0
LENGTH_SD = 0.06
CHAINS, TUNE, DRAWS, NUTS_TUNE = 4, 150, 400, 1000
SCENES = {"one picture": 1, "two pictures": 2}
COLORS = {"constrained HMC": "#2a7f62", "NUTS": "#b0483f"}

# medians in metres
LENGTHS = {
    "hip width": 0.10,
    "hip drop": 0.06,
    "thigh": 0.43,
    "shin": 0.42,
    "foot": 0.18,
    "lower spine": 0.22,
    "upper spine": 0.26,
    "neck": 0.11,
    "head": 0.17,
    "shoulder width": 0.18,
    "shoulder drop": 0.04,
    "upper arm": 0.30,
    "forearm": 0.26,
}

# Per joint: its parent; the bone between them, as lengths and directions in a person who stands
# upright and faces +z, left hand towards +x; and mean and standard deviation of the angles, in
# degrees, that turn the bone about x (forward), y (twist) and z (sideways)
TRUNK = {
    "pelvis": (None, {}, (0, 0, 0), (6, 40, 6)),
    "spine": ("pelvis", {"lower spine": (0, 1, 0)}, (5, 0, 0), (8, 8, 6)),
    "thorax": ("spine", {"upper spine": (0, 1, 0)}, (5, 0, 0), (8, 10, 6)),
    "neck": ("thorax", {"neck": (0, 1, 0)}, (10, 0, 0), (10, 15, 8)),
    "head": ("neck", {"head": (0, 1, 0)}, (-5, 0, 0), (10, 0, 8)),
}
HIP = {"hip width": (1, 0, 0), "hip drop": (0, -1, 0)}
SHOULDER = {"shoulder width": (1, 0, 0), "shoulder drop": (0, -1, 0)}
LEFT = {
    "hip": ("pelvis", HIP, (0, 0, 0), (0, 0, 0)),
    "knee": ("hip", {"thigh": (0, -1, 0)}, (-15, 0, 5), (25, 12, 10)),
    "ankle": ("knee", {"shin": (0, -1, 0)}, (30, 0, 0), (20, 8, 4)),
    "toe": ("ankle", {"foot": (0, -0.28, 0.96)}, (0, 8, 0), (12, 10, 0)),
    "shoulder": ("thorax", SHOULDER, (0, 0, 0), (4, 6, 6)),
    "elbow": ("shoulder", {"upper arm": (0, -1, 0)}, (-10, 0, 20), (35, 25, 25)),
    "wrist": ("elbow", {"forearm": (0, -1, 0)}, (-45, 0, 0), (25, 0, 10)),
}


def mirrored():
    """The joints of both sides and of the trunk, parents first."""
    joints = dict(TRUNK)
    for side, sign in (("left", 1), ("right", -1)):
        for name, (parent, bone, mean, sd) in LEFT.items():
            joints[f"{side} {name}"] = (
                parent if parent in TRUNK else f"{side} {parent}",
                {length: (sign * x, y, z) for length, (x, y, z) in bone.items()},
                (mean[0], sign * mean[1], sign * mean[2]),
                sd,
            )

    def depth(name):
        return 0 if joints[name][0] is None else 1 + depth(joints[name][0])

    return {name: joints[name] for name in sorted(joints, key=depth)}


JOINTS = mirrored()
NAMES = list(JOINTS)
PARENTS = [-1 if joint[0] is None else NAMES.index(joint[0]) for joint in JOINTS.values()]
BONES = np.array(
    [
        [[bone.get(length, (0, 0, 0))[axis] for length in LENGTHS] for axis in range(3)]
        for _, bone, _, _ in JOINTS.values()
    ],
    dtype=float,
)
ANGLE_MEAN, ANGLE_SD = (np.radians([joint[i] for joint in JOINTS.values()]) for i in (2, 3))
FREE = np.flatnonzero(ANGLE_SD)
SPREAD = np.diag(ANGLE_SD.ravel())[:, FREE]
DIMS = ("picture", "joint", "at")


def turns(angles):
    """Rotation matrices about y, then x, then z, of angles (n, 3), shape (n, 3, 3)."""
    sx, sy, sz = (pt.sin(angles[:, i]) for i in range(3))
    cx, cy, cz = (pt.cos(angles[:, i]) for i in range(3))
    rows = [
        [cz * cy - sz * sx * sy, -sz * cx, cz * sy + sz * sx * cy],
        [sz * cy + cz * sx * sy, cz * cx, sz * sy - cz * sx * cy],
        [-cx * sy, sx, cx * cy],
    ]
    return pt.stack([pt.stack(row, axis=-1) for row in rows], axis=-2)


def joint_positions(angles, lengths):
    """Positions (19, 3) relative to the pelvis, of angles (19, 3) and lengths (13,)."""
    turn, bone = turns(angles), pt.dot(BONES, lengths)
    here, turned, position = np.array([0]), turn[:1], pt.zeros((1, 3))
    levels = [position]
    # all joints of the same distance from the pelvis at once, which keeps the graph small
    while np.isin(PARENTS, here).any():
        before, here = here, np.flatnonzero(np.isin(PARENTS, here))
        parent = np.array(PARENTS)[here] - before[0]
        turned = (turned[parent][:, :, :, None] * turn[here][:, None, :, :]).sum(axis=2)
        position = position[parent] + (turned * bone[here][:, None, :]).sum(axis=2)
        levels.append(position)
    return pt.concatenate(levels)


def pictures(joints, camera, n_cameras):
    """Where the joints are in the pictures, shape (n_cameras, 19, 2); cameras look along -z."""
    offset = BASELINE * np.arange(n_cameras)[:, None, None] * np.array([1.0, 0.0])
    across = joints[None, :, :2] - camera[:2] - offset
    return FOCAL * across / (camera[2] - joints[:, 2])[None, :, None]


def scene(n_cameras):
    """Declare the prior; the pictures without noise come back."""
    angles = pm.Normal("angles", shape=FREE.size)
    lengths = pm.Normal("lengths", shape=len(LENGTHS))
    camera = pm.Normal("camera", shape=3)
    angles = ANGLE_MEAN + pt.dot(SPREAD, angles).reshape(ANGLE_MEAN.shape)
    lengths = np.array(list(LENGTHS.values())) * pt.exp(LENGTH_SD * lengths)
    camera = pt.stack([0.3 * camera[0], 0.3 * camera[1], 4.0 * pt.exp(0.15 * camera[2])])
    joints = pm.Deterministic("joints", joint_positions(angles, lengths), dims=("joint", "axis"))
    return pictures(joints, camera, n_cameras)


def coords(n_cameras):
    """Labels of the model's dimensions."""
    return {"joint": NAMES, "axis": list("xyz"), "picture": range(n_cameras), "at": ["x", "y"]}


def generator(data):
    """The generator, noise included, with its pictures observed exactly."""
    with pm.Model(coords=coords(len(data))) as model:
        clean = scene(len(data))
        noise = pm.Normal("noise", dims=DIMS)
        lz.ExactObservation("pictures", clean + NOISE * noise, data, dims=DIMS)
    return model


def hierarchical(data):
    """The same model with its likelihood written down."""
    with pm.Model(coords=coords(len(data))) as model:
        pm.Normal("pictures", scene(len(data)), NOISE, observed=data, dims=DIMS)
    return model


def true_scene(seed=SEED):
    """Joints of a person drawn from the prior (19, 3), and two pictures with noise (2, 19, 2)."""
    with pm.Model(coords=coords(2)) as model:
        pm.Normal("pictures", scene(2), NOISE, dims=DIMS)
    return pm.draw([model["joints"], model["pictures"]], random_seed=seed)


def sample(model, step_method=None, **kwargs):
    """Posterior of a model, and how many seconds it took, compilation included."""
    begin = time.perf_counter()
    with model:
        step = None if step_method is None else step_method()
        tree = pm.sample(
            chains=CHAINS, cores=1, step=step, random_seed=SEED, progressbar=False, **kwargs
        )
    return tree, time.perf_counter() - begin


def fit(data):
    """Trees with log Z, and seconds, of both methods, given pictures (n, 19, 2)."""
    exact, ordinary = generator(data), hierarchical(data)
    fits = {
        "constrained HMC": (exact, *sample(exact, lz.ConstrainedHMC, tune=TUNE, draws=DRAWS)),
        "NUTS": (ordinary, *sample(ordinary, tune=NUTS_TUNE, draws=1000)),
    }
    with warnings.catch_warnings():
        # the status is printed
        warnings.simplefilter("ignore", lz.EvidenceWarning)
        return {
            method: (lz.bridge_sampling(tree, model, random_seed=SEED), seconds)
            for method, (model, tree, seconds) in fits.items()
        }


def joints_of(tree):
    """Posterior draws of all joints but the pelvis, which is the origin, as a data set."""
    return tree["posterior"].to_dataset()[["joints"]].isel(joint=slice(1, None))


def rmse(mean, truth):
    """Root mean square distance of joints (..., 19, 3), in centimetres."""
    return 100 * np.sqrt(((mean - truth)[..., 1:, :] ** 2).sum(axis=-1).mean(axis=-1))


def row(tree, seconds, truth):
    """What there is to say of a posterior."""
    draws, evidence = joints_of(tree), tree["evidence"].to_dataset().isel(estimator=0)
    ess, of_chain = az.ess(draws)["joints"], tree["posterior"]["joints"].mean("draw").to_numpy()
    return {
        "seconds": seconds,
        "r_hat": float(az.rhat(draws)["joints"].max()),
        "ess_min": float(ess.min()),
        "ess_median": float(ess.median()),
        "ess_median_per_s": float(ess.median()) / seconds,
        "rmse_cm": rmse(of_chain.mean(axis=0), truth),
        "rmse_of_chains": " ".join(f"{value:.0f}" for value in rmse(of_chain, truth)),
        "log_z": float(evidence["log_z"]),
        "mcse": float(evidence["mcse"]),
        "status": str(evidence["status"].values),
    }


def report(fits, truth):
    """Print how both methods did, what the constrained sampler says, and whether they agree."""
    rows = {key: row(*one, truth) for key, one in fits.items()}
    print(pd.DataFrame(rows).T.to_string(float_format="{:.2f}".format))
    names = ["acceptance_rate", "not_converged", "not_reversible", "not_finite"]
    names += ["n_iterations", "n_newton", "step_size", "n_steps"]
    of_scene = {}
    for key in SCENES:
        stats = fits[key, "constrained HMC"][0]["sample_stats"]
        of_scene[key] = {name: float(stats[name].mean()) for name in names}
    print(pd.DataFrame(of_scene).T.to_string(float_format="{:.3g}".format))
    for key in SCENES:
        ours, theirs = (joints_of(fits[key, method][0]) for method in COLORS)
        error = np.hypot(az.mcse(ours)["joints"], az.mcse(theirs)["joints"])
        away = np.abs(
            ours["joints"].mean(("chain", "draw")) - theirs["joints"].mean(("chain", "draw"))
        )
        print(
            f"{key}: posterior means of the two methods differ "
            f"by at most {float((away / error).max()):.1f} standard errors"
        )


def skeleton(ax, joints, axis, color, **style):
    """Draw a skeleton (19, 3) as it looks from the front (axis 0) or the side (axis 2)."""
    for name, parent, joint in zip(NAMES[1:], PARENTS[1:], joints[1:], strict=True):
        ends = np.stack([joints[parent], joint])
        dash = (0, (3, 1)) if name.startswith("left") else "-"
        ax.plot(ends[:, axis], ends[:, 1], color=color, linestyle=dash, **style)


def draw_poses(axes, truth, fits, rng):
    """The truth, and posterior draws over it: front views above side views."""
    ours = {
        key: fits[key, "constrained HMC"][0]["posterior"]["joints"].to_numpy() for key in SCENES
    }
    columns = [("truth", [])]
    columns += [
        (f"one picture\ndraw of chain {i + 1}", [ours["one picture"][i, -1]]) for i in range(3)
    ]
    for key, draws in ours.items():
        columns.append((f"{key}\n40 draws", rng.permutation(draws.reshape(-1, *truth.shape))[:40]))
    stuck = fits["one picture", "NUTS"][0]["posterior"]["joints"].to_numpy()
    columns.append(
        ("one picture, NUTS\n40 draws", rng.permutation(stuck.reshape(-1, *truth.shape))[:40])
    )
    for i, (title, poses) in enumerate(columns):
        color = COLORS["NUTS" if "NUTS" in title else "constrained HMC"]
        for ax, axis in zip(axes[:, i], (0, 2), strict=True):
            for pose in poses:
                alone = len(poses) == 1
                skeleton(ax, pose, axis, color, lw=1.8 if alone else 0.8, alpha=1 if alone else 0.3)
            if len(poses) != 1:
                skeleton(ax, truth, axis, "black", lw=1.6)
            ax.set(xlim=(-0.85, 0.85), ylim=(-1.05, 0.85), aspect="equal", xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
        axes[0, i].set_title(title, fontsize=10)
    axes[0, 0].set_ylabel("front")
    axes[1, 0].set_ylabel("side")
    axes[0, 0].figure.supxlabel("black: truth; dashed: left arm and leg", fontsize=9)


def draw_errors(axes, truth, fits):
    """Error of each chain's running posterior mean against the seconds that all chains took."""
    for ax, key in zip(axes, SCENES, strict=True):
        for method, color in COLORS.items():
            tree, seconds = fits[key, method]
            joints = tree["posterior"]["joints"].to_numpy()
            n = joints.shape[1]
            running = np.cumsum(joints, axis=1) / np.arange(1, n + 1)[:, None, None]
            tune = TUNE if method == "constrained HMC" else NUTS_TUNE
            spent = seconds * (tune + np.arange(1, n + 1)) / (tune + n)
            for chain, error in enumerate(rmse(running, truth)):
                ax.plot(spent, error, color=color, lw=1, label=method if chain == 0 else None)
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 4)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
        ax.set(ylabel="error of the mean (cm)", ylim=(2, 60))
        ax.set_title(key, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[1].legend(frameon=False, fontsize=9, loc="upper right")
    axes[1].set_xlabel("seconds")


def draw(truth, fits):
    """Poses from the front and from the side, as in figure 3 of the paper, and errors over time."""
    figure = plt.figure(figsize=(15, 5.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[4, 1])
    draw_poses(left.subplots(2, 7), truth, fits, np.random.default_rng(SEED))
    draw_errors(right.subplots(2, 1), truth, fits)
    return figure


def main():
    """Fit both scenes by both methods, print the tables, save the picture."""
    truth, data = true_scene()
    fits = {}
    for key, n_pictures in SCENES.items():
        for method, one in fit(data[:n_pictures]).items():
            fits[key, method] = one
    report(fits, truth)
    draw(truth, fits).savefig("pose.png", dpi=130)
    print("\nThe picture is in pose.png")


if __name__ == "__main__":
    main()
