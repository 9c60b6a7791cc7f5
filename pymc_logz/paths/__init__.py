"""Paths from a reference to a target: what rows are worth on them, temperatures, references."""
