"""Symbolic graphs: compiled, batched over rows, simplified."""
