"""Figures of DataTrees."""

from pymc_logz.plots.annealed import plot_path, plot_weights
from pymc_logz.plots.compared import plot_evidence, plot_sandwich, plot_sensitivity
from pymc_logz.plots.tempered import plot_overlap, plot_tempering, plot_thermo

__all__ = [
    "plot_evidence",
    "plot_overlap",
    "plot_path",
    "plot_sandwich",
    "plot_sensitivity",
    "plot_tempering",
    "plot_thermo",
    "plot_weights",
]
