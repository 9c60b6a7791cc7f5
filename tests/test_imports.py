"""What is imported when: counted in modules, since seconds are those of one machine."""

import json
import subprocess
import sys
import textwrap
from functools import cache

import pytest

HEAVY = {
    "arviz_base",
    "arviz_plots",
    "arviz_stats",
    "jax.numpy",  # ArviZ leaves `jax` itself, not loaded yet
    "matplotlib",
    "numba",
    "scipy.interpolate",
    "scipy.optimize",
    "scipy.stats",
}
"""Half a second or more each, and not imported by ``import pymc``."""
SCRIPT = """
    import json, sys
    import pymc as pm
    seen = set(sys.modules)

    def news():
        global seen
        new, seen = set(sys.modules) - seen, set(sys.modules)
        print(json.dumps(sorted(new)))

    import pymc_logz as lz
    news()
    for name in dir(lz):
        if not name.startswith("plot_") and name != "energies":
            getattr(lz, name)
    news()
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=0.7)
    lz.sample_hais(model=model, random_seed=1, progressbar=False)
    news()
    lz.bayes_factor
    lz.plot_evidence
    news()
"""


@cache
def imported() -> list[set[str]]:
    """What is new after each stage of the script: import, names, a run, a plot."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, check=True
    )
    return [set(json.loads(line)) for line in done.stdout.splitlines()]


def check_light(modules: set[str], *allowed: str) -> None:
    heavy = (modules & HEAVY) - set(allowed)
    assert not heavy, f"imported already: {sorted(heavy)}"


def test_the_package_imports_nothing_but_itself() -> None:
    """Would catch a public name that is loaded before anyone asks for it."""
    assert imported()[0] == {"pymc_logz", "pymc_logz.wings"}


def test_public_names_bring_nothing_heavy() -> None:
    """Would catch an import that only some calls need at the top of a file that all need."""
    check_light(imported()[1])
    with pytest.raises(AssertionError, match=r"scipy\.stats"):
        check_light(imported()[1] | {"scipy.stats"})


def test_a_small_run_brings_what_makes_a_tree() -> None:
    """Would catch a run that imports what only plots, diagnostics or other runs need.

    JAX is none of it where NumPy evaluates, though ArviZ would import it.
    """
    check_light(imported()[2], "arviz_base")


def test_plots_bring_what_they_need() -> None:
    """Would catch a list of heavy modules that nothing imports under these names any more."""
    assert "arviz_plots" in imported()[3]
