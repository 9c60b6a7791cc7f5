"""Pictures of the plot gallery: each figure of a good run, and of a bad one.

Run it with ``uv run docs/figures/plot_gallery.py``; it writes to ``docs/_static/plots``, in some
minutes. Names of functions after it make a part of them: ``compared tempered``.
"""

import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_logz as lz
from pymc_logz.energies import hierarchical_normal, radiata_pine, two_gaussians

FOLDER = Path(__file__).parents[1] / "_static" / "plots"
QUIET = {"random_seed": 1, "progressbar": False}


def annealed() -> dict[str, object]:
    """Runs with weights: as it should be, with far too few temperatures, and both ways."""
    pine, funnel = radiata_pine("density").model, hierarchical_normal().model
    few = {"betas": 12, "reference": "prior"}
    weak = lz.sample_hais(64, model=funnel, **few, **QUIET)
    default = lz.sample_hais(model=pine, **QUIET)  # from a learned reference, one temperature
    lengths = (64, 256, 1024)
    return {
        "path_good": ("plot_path", lz.sample_hais(model=pine, reference="prior", **QUIET)),
        "path_single": ("plot_path", default),
        "path_bad": ("plot_path", weak),
        "weights_good": ("plot_weights", default),
        "weights_bad": ("plot_weights", weak),
        "sandwich_good": ("plot_sandwich", [lz.sandwich(pine, betas=k, **QUIET) for k in lengths]),
        "sandwich_bad": ("plot_sandwich", [lz.sandwich(funnel, betas=k, **QUIET) for k in lengths]),
    }


def compared() -> dict[str, object]:
    """Models that are told apart, and models that are not."""
    pine = {name: radiata_pine(name).model for name in ("density", "adjusted")}
    apart = {name: lz.sample_hais(model=model, **QUIET) for name, model in pine.items()}
    short = {"draws": 128, "chains": 2, "betas": 64, "reference": "prior"}
    seeds = [
        lz.sample_hais(model=pine["density"], **short, random_seed=k, progressbar=False)
        for k in (1, 2)
    ]
    same = {"one run": seeds[0], "the same model, again": seeds[1]}
    return {"evidence_good": ("plot_evidence", apart), "evidence_bad": ("plot_evidence", same)}


def tempered() -> dict[str, object]:
    """A ladder with overlap, and one with gaps and few draws."""
    good = lz.sample_tempered(model=two_gaussians(4).model, betas=12, reference="prior", **QUIET)
    bad = lz.sample_tempered(
        100, model=two_gaussians(20).model, betas=6, reference="prior", **QUIET
    )
    names = ("tempering", "thermo", "overlap")
    return {
        f"{name}_{how}": (f"plot_{name}", tree)
        for name in names
        for how, tree in (("good", good), ("bad", bad))
    }


def reweighted() -> dict[str, object]:
    """Alternatives within reach of the draws, and beyond it."""
    with pm.Model() as model:
        width = pm.Data("width", 1.0)
        mean = pm.Normal("mean", 0, width)
        pm.Normal("y", mean, 1, observed=[1.0, 2.0, 0.5])
    widths = {"width": np.geomspace(0.1, 100, 60)}
    many = lz.sample_hais(1024, model=model, **QUIET)
    few = lz.sample_hais(32, 1, model=model, **QUIET)
    return {
        f"sensitivity_{how}": (
            "plot_sensitivity",
            lz.evidence_sensitivity(tree, model, widths, progressbar=False),
        )
        for how, tree in (("good", many), ("bad", few))
    }


def main() -> None:
    """Make the runs, and save the pictures."""
    # bad runs warn, which is the point of them
    warnings.simplefilter("ignore")
    FOLDER.mkdir(exist_ok=True)
    groups = (compared, annealed, tempered, reweighted)
    for make in [make for make in groups if make.__name__ in (sys.argv[1:] or [make.__name__])]:
        for name, (function, what) in make().items():
            collection = getattr(lz, function)(what, backend="matplotlib")
            collection.viz["figure"].item().savefig(FOLDER / f"{name}.png", dpi=110)
            plt.close("all")
            print(name, flush=True)


if __name__ == "__main__":
    main()
