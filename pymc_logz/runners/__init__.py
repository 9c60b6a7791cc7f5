"""Runners: the order of moves and temperatures, compiled in blocks and driven from Python."""
