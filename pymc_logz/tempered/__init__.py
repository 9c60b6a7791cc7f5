"""Simulated tempering: runs, results, evidence, plots, and tracking while a model changes."""
