"""Figures of DataTrees."""
