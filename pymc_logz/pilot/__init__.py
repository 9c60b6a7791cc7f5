"""The pilot: a population that finds temperatures, step sizes and scales before a run."""
