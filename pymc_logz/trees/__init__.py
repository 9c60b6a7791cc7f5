"""Runs and estimates as ArviZ trees, and back."""
