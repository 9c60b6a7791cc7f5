"""Densities that rows are drawn from: each way of making one looks at all rows seen so far."""
