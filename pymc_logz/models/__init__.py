"""From a PyMC model to flat rows, their prior, their density and their data."""
