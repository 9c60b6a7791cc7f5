"""Approximate Bayesian computation: outputs within a distance of what was observed."""
