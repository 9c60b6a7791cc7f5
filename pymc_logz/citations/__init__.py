"""How to cite a run; `pymc_logz.cite` is what users call."""
