"""Ordinary models as simulators that are observed exactly, and the other way."""
