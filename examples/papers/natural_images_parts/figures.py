"""Pictures and tables of natural_images.py, and the file that its numbers are kept in."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import products_of_experts as comparison

from . import models
from .patches import SIDE, Patches

COLOURS = {
    "experts, Laplace": "#3f6fb0",
    "experts, Student-t": "#2a7f62",
    "mcRBM": "#b0483f",
    "bilinear": "#7a4b94",
    "linear, Laplace": "#8c6d31",
    "linear, Gaussian": "#6b6b6b",
}
N_SHOWN, GRID = 36, (3, 12)


class Kept(dict[str, Any]):
    """Numbers by name, written to a file as they come."""

    def __init__(self, store: Path) -> None:
        self.store = store
        if store.exists():
            with np.load(store, allow_pickle=True) as file:
                self.update({name: file[name][0] for name in file.files})

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        arrays = {each: np.empty(1, dtype=object) for each in self}
        for each, array in arrays.items():
            array[0] = self[each]
        np.savez_compressed(self.store, **arrays)


def show(number: str, kept: dict[str, Any], data: Patches) -> None:
    """Print the table of a figure, draw it, save it."""
    if number == "0":
        print(f"\nbases of zero\n{pd.Series(kept[number]).to_string()}")
        return
    if number == "table":
        print(f"\n{table(kept).to_string()}")
        return
    if number == "1":
        figure = draw_filters(kept, data)
    elif number in ("2", "3"):
        figure = draw_convergence(kept[number], {"2": "Student-t", "3": "Laplace"}[number])
    elif number == "4":
        figure = draw_linear(kept[number])
    else:
        figure = draw_sizes(kept)
    figure.savefig(f"natural_images_{number}.png", dpi=130)
    plt.close(figure)
    print(f"The picture is in natural_images_{number}.png")


def plain(*axes: Any) -> None:
    """Axes without frames."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)


def found_of(kept: dict[str, Any], kind: str, name: str) -> dict[int, Any]:
    """What is kept of a model, by its size."""
    start = f"{kind} {name} "
    return {int(key[len(start) :]): kept[key] for key in kept if key.startswith(start)}


def best_of(kept: dict[str, Any], name: str) -> int:
    """The size of the highest log likelihood of patches for validation, where sizes differ."""
    found = found_of(kept, "likelihood", name)
    return max(found, key=lambda n: found[n].get("validation", found[n]["mean"]))


def table(kept: dict[str, Any]) -> pd.DataFrame:
    """Table 1: the best size of each model, beside the paper's."""
    rows = {}
    for name, (size, value, error) in models.PAPER.items():
        n = best_of(kept, name)
        one = kept[f"likelihood {name} {n}"]
        rows[name] = {
            "size": n,
            "log likelihood": f"{one['mean']:.2f} ± {one['standard_error']:.2f}",
            "validation": f"{one['validation']:.2f}" if "validation" in one else "",
            "by log Z": f"{one['mcse']:.3f}",
            "exact": f"{one['exact']:.3f}" if np.isfinite(one["exact"]) else "",
            "status": one["status"],
            "seconds": f"{one['seconds']:.0f}",
            "paper, size": size,
            "paper": f"{value:.2f} ± {error:.2f}",
        }
    return pd.DataFrame(rows).T


def montage(pixels: np.ndarray, order: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Images (n, 256) side by side, each scaled to its largest pixel times its strength."""
    rows, columns = GRID
    sheet = np.full((rows * (SIDE + 1) + 1, columns * (SIDE + 1) + 1), np.nan)
    for place, i in enumerate(order[: rows * columns]):
        top, left = (1 + (SIDE + 1) * k for k in divmod(place, columns))
        image = pixels[i].reshape(SIDE, SIDE) * strength[i] / np.abs(pixels[i]).max()
        sheet[top : top + SIDE, left : left + SIDE] = image
    return sheet


def draw_filters(kept: dict[str, Any], data: Patches) -> Any:
    """Figure 1: bases as what they add to a patch, filters as what they look for."""
    sheets = {}

    def add(title: str, pixels: np.ndarray, strength: np.ndarray | None = None) -> None:
        n = len(pixels)
        order = np.arange(n) if strength is None else np.argsort(-strength)
        weight = np.ones(n) if strength is None else strength / strength.max()
        sheets[f"({'abcdefghi'[len(sheets)]}) {title}"] = montage(pixels, order, weight)

    parts = {name: kept[f"parts {name} {best_of(kept, name)}"] for name in models.PAPER}
    for name in ("linear, Gaussian", "linear, Laplace"):
        add(f"bases, {name}", (data.colour @ parts[name]["bases"]).T)
    for name in ("experts, Laplace", "experts, Student-t"):
        add(f"filters, {name}", parts[name]["filters"] @ data.whiten)
    bases = (data.colour @ parts["bilinear"]["bases"]).T
    add("bases, bilinear", bases)
    second = parts["bilinear"]["second"]
    one = int(second.std(axis=0).argmax())
    add("a column of Psi, bilinear", bases, np.abs(second[:, one]))
    rbm = parts["mcRBM"]
    add("filters C, mcRBM", rbm["C"] @ data.whiten)
    add("means W, mcRBM", rbm["W"] @ data.whiten)
    one = int(np.abs(rbm["P"]).std(axis=0).argmax())
    add("a column of P, mcRBM", rbm["C"] @ data.whiten, np.abs(rbm["P"][:, one]))
    figure, axes = plt.subplots(5, 2, figsize=(11, 8.2), layout="constrained")
    for ax in axes.ravel():
        ax.set_axis_off()
    for ax, (title, sheet) in zip(axes.ravel(), sheets.items(), strict=False):
        ax.imshow(sheet, cmap="gray", vmin=-1, vmax=1)
        ax.set_title(title, fontsize=9, loc="left")
    return figure


def draw_convergence(found: dict[str, Any], name: str) -> Any:
    """Figures 2 and 3: log likelihood, and error, against the number of temperatures."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
    for ax, kind in zip(axes, ("paper", "best"), strict=False):
        for method, curve in curves_of(found[kind]).items():
            # log likelihood is less by what log Z is more
            where = np.outer(curve.temperatures, np.linspace(0.9, 1.1, curve.errors.shape[1]))
            colour = comparison.METHODS[method].color
            ax.scatter(where, found["exact"] - curve.errors, s=8, color=colour, lw=0, label=method)
        ax.axhline(found["exact"], color="0.2", ls="--", lw=1)
        ax.set(xscale="log", xlabel="temperatures", ylabel="log likelihood of test patches (nats)")
        steps = "the paper's step sizes" if kind == "paper" else "best step sizes"
        ax.set_title(f"{name} experts, {steps}", fontsize=10)
    axes[1].set_ylim(axes[0].get_ylim())
    for kind, style in (("paper", "o:"), ("best", "o-")):
        for method, curve in curves_of(found[kind]).items():
            colour = comparison.METHODS[method].color
            label = f"{method}, {kind}"
            axes[2].loglog(curve.temperatures, curve.rmse, style, ms=4, color=colour, label=label)
        report(name, kind, found[kind])
    axes[2].set(xlabel="temperatures", ylabel="RMSE of log Z (nats)")
    # beside the curves, which take all of the axes
    axes[2].legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[0].legend(frameon=False, fontsize=8)
    plain(*axes)
    return figure


def curves_of(found: dict[str, Any]) -> dict[str, Any]:
    """The curves, without the error that they are compared at."""
    return {method: curve for method, curve in found.items() if method != "rmse"}


def report(name: str, kind: str, found: dict[str, Any]) -> None:
    """Temperatures that each method needs for one error of log Z, and how many times those."""
    curves = curves_of(found)
    hais, rows = curves["HAIS"], {}
    for method, curve in curves.items():
        low, high = np.quantile(curve.resampled / hais.resampled, [0.025, 0.975])
        rows[method] = {
            "step size": curve.step_size,
            "acceptance": f"{curve.acceptance_rate:.2f}",
            "temperatures": f"{curve.needed:.0f}",
            "/ HAIS": f"{curve.needed / hais.needed:.1f}",
            "95% interval": f"{low:.1f} to {high:.1f}",
            **{
                f"RMSE at {n}": f"{e:.2f}"
                for n, e in zip(curve.temperatures, curve.rmse, strict=True)
            },
        }
    print(f"\n{name} experts, {kind} step sizes: for an RMSE of {found['rmse']:.2f} nats")
    print(pd.DataFrame(rows).T.to_string(na_rep=""))


def draw_linear(kept: dict[str, Any]) -> Any:
    """Figure 4: HAIS and the exact log likelihood of the linear model with a Gaussian prior."""
    found = pd.Series(kept["found"]).unstack(0)
    print(f"\nlinear, Gaussian: exact {kept['exact']:.3f}\n{found.round(3).to_string()}")
    figure, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
    for ladder, colour in (("even", "#3f6fb0"), ("dense near 0", "#2a7f62")):
        ax.plot(found.index, found[ladder], "o-", ms=4, color=colour, label=f"HAIS, {ladder}")
    ax.axhline(kept["exact"], color="0.2", ls="--", lw=1, label="exact")
    ax.set(xscale="log", xlabel="temperatures", ylabel="log likelihood (nats)")
    ax.set_ylim(kept["exact"] - 60, kept["exact"] + 3)
    ax.legend(frameon=False)
    plain(ax)
    return figure


def draw_sizes(kept: dict[str, Any]) -> Any:
    """Figure 5: log likelihood against the number of experts or latent variables."""
    figure, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    rows, last = {}, 0
    for name, colour in COLOURS.items():
        found = dict(sorted(found_of(kept, "likelihood", name).items()))
        mean = [one["mean"] for one in found.values()]
        rows |= {(name, n): one for n, one in found.items()}
        ax.plot(list(found), mean, "o-", ms=4, color=colour, label=name)
        last = max(last, *found)
    columns = ["mean", "validation", "standard_error", "mcse", "exact", "seconds"]
    numbers = pd.DataFrame(rows).T.reindex(columns=[*columns, "status"])
    shown = numbers[columns].astype(float).round(3).assign(status=numbers["status"])
    print(f"\n{shown.to_string()}")
    ax.set(
        xscale="log",
        xlabel="experts, hidden units or latent variables",
        ylabel="log likelihood (nats)",
    )
    ticks = [n for n in (36, 72, 144, 288, 432) if n <= last]
    ax.set_xticks(ticks, [str(n) for n in ticks], minor=False)
    ax.xaxis.minorticks_off()
    ax.legend(frameon=False, fontsize=8)
    plain(ax)
    return figure
