"""Figures of DataTrees, one file each."""
