"""Ordinary models, of the kinds that PyMC's gallery has; many of them with their exact log Z."""

from gallery import counts, hierarchies, regressions, series
from gallery.entries import MODELS, Entry

__all__ = ["MODELS", "Entry", "counts", "hierarchies", "regressions", "series"]
