"""Figures of DataTrees, one file each."""

from pymc_logz.plots.evidence import plot_evidence
from pymc_logz.plots.overlap import plot_overlap
from pymc_logz.plots.path import plot_path
from pymc_logz.plots.sandwich import plot_sandwich
from pymc_logz.plots.sensitivity import plot_sensitivity
from pymc_logz.plots.tempering import plot_tempering
from pymc_logz.plots.thermo import plot_thermo
from pymc_logz.plots.weights import plot_weights

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
