"""In-paintings of a digit of which only a part is seen, and which digit it is.

A small variational auto-encoder is trained on 8 x 8 digits. Its decoder is a simulator: a code h
and noise n, all standard normal, give the pixels mean(h) + sd n. The top of a held-out digit is
observed exactly, and ``lz.ConstrainedHMC()`` draws the codes, and with them the missing pixels,
that go with it. The setting is that of Graham & Storkey (2017), section 7.3, arXiv 1605.07826.

This simulator has a likelihood, normal given h, so that NUTS can do the same; both are timed.
``lz.bridge_sampling`` gives log p(seen pixels) of one simulator for each digit, and their Bayes
factors tell which digit it is. HAIS checks each of these numbers by way of the likelihood.

Run it with ``uv run examples/constrained/inpainting.py``; it saves ``inpainting.png``.
"""

from itertools import pairwise

import matplotlib

matplotlib.use("Agg")

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import load_digits

import pymc_logz as lz

SIDE, N_CODE, N_HIDDEN, N_TRAIN = 8, 10, 64, 1500
N_PIXELS = SIDE**2
LEVELS = 17
HELD_OUT = N_TRAIN + 110
REGIONS = {"top quarter": np.arange(N_PIXELS // 4), "top half": np.arange(N_PIXELS // 2)}
CLASSES = (2, 3, 8, 9)
N_DRAWS, N_SHOWN, N_COLUMNS = 1000, 24, 8
SHOWN = ("acceptance_rate", "n_steps", "n_iterations", "n_newton")
SHOWN += ("not_converged", "not_reversible", "not_finite", "diverging")
SHADES = LinearSegmentedColormap.from_list("night", ["#1d1233", "#ffffff"])


def digits(seed=1):
    """Pixels in (0, 1), shape (1797, 64), and the digits they show, in random order.

    Grey levels are whole numbers, of which a density with a learned noise can make too much: it
    would go to infinity on the margins, which are always white. Uniform noise within a level makes
    them continuous.
    """
    rng = np.random.default_rng(seed)
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))
    return (images[order] + rng.random(images.shape)) / LEVELS, labels[order]


def layers(x, weights):
    """Two layers of a network."""
    first, first_bias, second, second_bias = weights
    return pt.tanh(x @ first + first_bias) @ second + second_bias


def encode(x, weights):
    """Mean and log sd of the codes of images, shape (n, 10) each."""
    out = layers(4.0 * x - 1.0, weights[:4])
    return out[:, :N_CODE], out[:, N_CODE:]


def decode(h, weights):
    """Mean of the pixels of a code."""
    return pt.sigmoid(layers(h, weights[4:8]))


def lower_bound(x, noise, weights):
    """Evidence lower bound, average over images, with one draw of the code of each."""
    (mean, log_sd), log_noise = encode(x, weights), weights[8]
    error = (x - decode(mean + pt.exp(log_sd) * noise, weights)) / pt.exp(log_noise)
    log_likelihood = -0.5 * (error**2 + 2.0 * log_noise + np.log(2.0 * np.pi)).sum(axis=1)
    divergence = 0.5 * (mean**2 + pt.exp(2.0 * log_sd) - 2.0 * log_sd - 1.0).sum(axis=1)
    return (log_likelihood - divergence).mean()


def initial_weights(rng):
    """Random matrices and zero biases of encoder and decoder, and log sds of the pixels' noise."""
    sizes = (N_PIXELS, N_HIDDEN, 2 * N_CODE), (N_CODE, N_HIDDEN, N_PIXELS)
    weights = []
    for n_in, n_out in (pair for network in sizes for pair in pairwise(network)):
        weights += [rng.normal(size=(n_in, n_out)) / np.sqrt(n_in), np.zeros(n_out)]
    return [*weights, np.full(N_PIXELS, -2.0)]


def train(images, n_steps=3000, batch=100, rate=5e-3, seed=1):
    """Weights of the auto-encoder, by Adam."""
    rng = np.random.default_rng(seed)
    weights = initial_weights(rng)
    symbols = [pt.tensor(shape=value.shape, dtype="float64") for value in weights]
    x, noise = (pt.tensor(shape=(batch, n), dtype="float64") for n in (N_PIXELS, N_CODE))
    bound = lower_bound(x, noise, symbols)
    function = pytensor.function(
        [x, noise, *symbols], [bound, *pt.grad(bound, symbols)], mode="JAX", trust_input=True
    )
    first, second = ([np.zeros_like(value) for value in weights] for _ in range(2))
    bounds = []
    for i in range(1, n_steps + 1):
        rows = rng.integers(len(images), size=batch)
        bound, *gradient = function(images[rows], rng.normal(size=(batch, N_CODE)), *weights)
        bounds.append(float(bound))
        for k, g in enumerate(map(np.asarray, gradient)):
            first[k] = 0.9 * first[k] + 0.1 * g
            second[k] = 0.999 * second[k] + 0.001 * g**2
            size = np.sqrt(second[k] / (1 - 0.999**i)) + 1e-8
            weights[k] = weights[k] + rate * (1 - i / n_steps) * first[k] / (1 - 0.9**i) / size
        if i % (n_steps // 5) == 0:
            print(f"step {i}: lower bound {np.mean(bounds[-100:]):.1f} nats per image")
    return weights


def code_priors(images, labels, weights):
    """Mean and Cholesky factor of the covariance of the codes of each digit."""
    codes = encode(pt.constant(images), weights)
    mean, log_sd = (value.eval(mode="FAST_COMPILE") for value in codes)
    priors = {}
    for k in CLASSES:
        own = labels == k
        covariance = np.cov(mean[own].T) + np.diag(np.exp(2.0 * log_sd[own]).mean(axis=0))
        priors[k] = mean[own].mean(axis=0), np.linalg.cholesky(covariance)
    return priors


def mean_of_pixels(weights, prior):
    """Mean of all pixels given standard normal inputs; without a prior these are the code."""
    inputs = pm.Normal("inputs", shape=N_CODE)
    h = inputs if prior is None else prior[0] + pt.dot(prior[1], inputs)
    return pm.Deterministic("mean", decode(h, weights))


def simulator(pixels, seen, weights, prior=None):
    """The decoder with the pixels that are seen observed exactly."""
    with pm.Model() as model:
        mean = mean_of_pixels(weights, prior)
        noise = pm.Normal("noise", shape=len(seen))
        output = mean[seen] + np.exp(weights[8][seen]) * noise
        lz.ExactObservation("pixels", output, pixels[seen])
    return model


def with_likelihood(pixels, seen, weights, prior=None):
    """The same with the noise integrated out."""
    with pm.Model() as model:
        mean = mean_of_pixels(weights, prior)
        pm.Normal("pixels", mean[seen], np.exp(weights[8][seen]), observed=pixels[seen])
    return model


def sample(model, step=None, draws=N_DRAWS, tune=500, chains=4):
    """Posterior by constrained HMC, or by NUTS if there is no step."""
    settings = {"cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}
    with model:
        return pm.sample(draws, tune=tune, chains=chains, step=step, **settings)


def constrained(model, **settings):
    """Posterior by constrained HMC, timed without compilation, as NUTS is."""
    with model:
        step = lz.ConstrainedHMC()
    # its functions are compiled when they are first called
    sample(model, step, draws=1, tune=1, chains=1)
    return sample(model, step, **settings)


def efficiency(tree):
    """What a run was worth, by the worst of the inputs."""
    draws = tree["posterior"]
    ess = float(az.ess(draws, var_names=["inputs"])["inputs"].min())
    seconds = draws.attrs["sampling_time"]
    row = {
        "rhat": float(az.rhat(draws, var_names=["inputs"])["inputs"].max()),
        "ess_per_draw": ess / (draws.sizes["chain"] * draws.sizes["draw"]),
        "seconds": seconds,
        "ess_per_second": ess / seconds,
    }
    statistics = tree["sample_stats"]
    return row | {name: float(statistics[name].mean()) for name in SHOWN if name in statistics}


def disagreement(one, other, n_seen):
    """Differences of two posteriors of the missing pixels' means, root mean square in mcse.

    About 1 if they agree, for the posterior mean and the posterior sd.
    """
    first, second = (tree["posterior"]["mean"][..., n_seen:] for tree in (one, other))
    rows = {}
    for name, moment in (("mean", xr.DataArray.mean), ("sd", xr.DataArray.std)):
        difference = moment(first, ("chain", "draw")) - moment(second, ("chain", "draw"))
        z = difference / np.hypot(az.mcse(first, method=name), az.mcse(second, method=name))
        rows[name] = float(np.sqrt((z**2).mean()))
    return rows


def in_paintings(tree, pixels, seen, every=1):
    """Images, shape (24, 64): pixels that were seen, and the means of the others from draws."""
    images = tree["posterior"]["mean"][0, : every * N_SHOWN : every].to_numpy().copy()
    images[:, seen] = pixels[seen]
    return images


def mosaic(images, seen, n_columns, zoom=6):
    """One picture of many images: black on white where they were seen, else white on black."""
    colors = SHADES(images)[..., :3]
    colors[:, seen] = 1.0 - images[:, seen, None]
    tiles = colors.reshape(-1, SIDE, SIDE, 3).repeat(zoom, axis=1).repeat(zoom, axis=2)
    framed = np.pad(tiles, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=0.55)
    apart = np.pad(framed, ((0, 0), (0, zoom), (0, zoom), (0, 0)), constant_values=1.0)
    height, width = apart.shape[1:3]
    rows = apart.reshape(-1, n_columns, height, width, 3).swapaxes(1, 2)
    return rows.reshape(-1, n_columns * width, 3)[:-zoom, :-zoom]


def draw(pixels, label, blocks, table):
    """The digit, in-paintings by both samplers, and how probable each digit is."""
    figure = plt.figure(figsize=(13, 4.3), layout="constrained")
    grid = figure.add_gridspec(2, 4, width_ratios=[3, 8, 8, 4.5])
    for i, (region, block) in enumerate(blocks.items()):
        seen = REGIONS[region]
        pictures = {f"{region} seen": mosaic(pixels[None], seen, 1)}
        pictures |= {name: mosaic(images, seen, N_COLUMNS) for name, images in block.items()}
        for j, (title, picture) in enumerate(pictures.items()):
            ax = figure.add_subplot(grid[i, j])
            ax.imshow(picture, interpolation="none")
            ax.set_title(title, fontsize=11)
            ax.axis("off")
    ax, table = figure.add_subplot(grid[:, 3]), table.sort_index()
    is_true = table.index == f"it is a {label}"
    ax.barh(table.index, table["probability"], color=np.where(is_true, "#5a3a86", "#b9a6d3"))
    ax.plot(table["probability_hais"], table.index, "o", color="0.15", label="by likelihood")
    ax.set(xlabel="probability", xlim=(0, 1.3 * table["probability"].max()))
    ax.set_title("which digit, given the top half\n(dark: the true one)", fontsize=11)
    ax.legend(frameon=False, loc="lower right")
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def compare_samplers(pixels, weights):
    """Posteriors of each region by constrained HMC and NUTS, printed side by side."""
    trees = {}
    for region, seen in REGIONS.items():
        ours = constrained(simulator(pixels, seen, weights))
        nuts = sample(with_likelihood(pixels, seen, weights))
        table = pd.DataFrame({"constrained": efficiency(ours), "nuts": efficiency(nuts)})
        print(f"\n{region}\n{table.to_string(float_format='{:.4g}'.format, na_rep='')}")
        apart = disagreement(ours, nuts, len(seen))
        print("difference in mcse:", ", ".join(f"{k} {v:.2f}" for k, v in apart.items()))
        trees[region] = ours, nuts
    return trees


def which_digit(pixels, seen, weights, priors):
    """Evidence of one simulator for each digit, by the bridge and by HAIS."""
    trees, checks = {}, {}
    for k, prior in priors.items():
        model = simulator(pixels, seen, weights, prior)
        tree = constrained(model, draws=500, tune=300)
        trees[f"it is a {k}"] = lz.bridge_sampling(tree, model, random_seed=1)
        checks[f"it is a {k}"] = lz.sample_hais(
            model=with_likelihood(pixels, seen, weights, prior), random_seed=1, progressbar=False
        )
    table, check = lz.compare_evidence(trees), lz.compare_evidence(checks)
    columns = ["log_z", "mcse", "probability", "status"]
    return table[columns].join(check[columns].add_suffix("_hais"))


def main():
    """Train, sample, compare, and save the picture."""
    images, labels = digits()
    weights = train(images[:N_TRAIN])
    pixels, label = images[HELD_OUT], labels[HELD_OUT]
    print(f"\nheld out: a {label}")
    blocks = {}
    for region, (ours, nuts) in compare_samplers(pixels, weights).items():
        seconds = [tree["posterior"].attrs["sampling_time"] for tree in (ours, nuts)]
        # NUTS draws this far apart took as long as consecutive ones of the other
        every = int(np.clip(round(seconds[0] / seconds[1]), 1, N_DRAWS // N_SHOWN))
        name, seen = f"NUTS with the likelihood, 1 draw in {every}", REGIONS[region]
        blocks[region] = {
            "constrained HMC, consecutive draws": in_paintings(ours, pixels, seen),
            name: in_paintings(nuts, pixels, seen, every),
        }
    priors = code_priors(images[:N_TRAIN], labels[:N_TRAIN], weights)
    table = which_digit(pixels, REGIONS["top half"], weights, priors)
    print(f"\n{table.to_string(float_format='{:.3f}'.format)}")
    draw(pixels, label, blocks, table).savefig("inpainting.png", dpi=150)
    print("\nThe picture is in inpainting.png")


if __name__ == "__main__":
    main()
