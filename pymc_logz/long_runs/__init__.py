"""Runs of hours: kept as they go, by other processes, added to, many models at once."""
