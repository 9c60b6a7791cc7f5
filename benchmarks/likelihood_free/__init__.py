"""What the benchmarks against approximate Bayesian computation share."""
