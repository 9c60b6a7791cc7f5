"""Sums over the values of discrete variables: a wing that the core finds if it is there."""
