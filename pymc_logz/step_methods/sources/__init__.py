"""Where step methods get their draws from: compiled work, in whatever process PyMC runs a chain."""
