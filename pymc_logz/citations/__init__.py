"""How to cite a run: the references of the methods that it used, as BibTeX."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import xarray as xr

from pymc_logz.errors import logger
from pymc_logz.trees import kinds
from pymc_logz.trees.layout import ESTIMATOR

OF_KIND = {
    kinds.HAIS: ("sohldickstein2012", "neal2001", "vehtari2024"),
    kinds.PER_DATUM: ("sohldickstein2012", "neal2001", "vehtari2024"),
    kinds.HAIS_STEP: ("sohldickstein2012", "neal2001", "andrieu2010", "vehtari2024"),
    kinds.HAIS_BOTH: ("sohldickstein2012", "neal2001", "grosse2015", "vehtari2024"),
    kinds.TEMPERED: ("carlson2016", "marinari1992"),
    kinds.TEMPERED_SUMS: ("carlson2016", "marinari1992"),
    kinds.TEMPERED_STEP: ("carlson2016", "marinari1992"),
    kinds.TRACKED: ("carlson2016", "marinari1992", "zwanzig1954"),
    kinds.TRACKED_MOMENT: ("carlson2016", "marinari1992", "zwanzig1954"),
    kinds.CONSTRAINED_STEP: ("graham2017",),
    kinds.MANIFOLD_BRIDGED: ("graham2017",),
    kinds.HMC: ("duane1987", "margossian2024"),
    kinds.IMPORTANCE: ("vehtari2024",),
}
"""Of what made the draws."""
OF_METHOD = {
    "abc_rejection": ("pritchard1999", "graham2017"),
    "abc_mcmc": ("marjoram2003", "graham2017"),
    "abc_slice": ("murray2010", "murray2016", "graham2017"),
    "raise_log_likelihood": ("burda2015",),
}
"""Of the setting ``method``, where kinds do not tell."""
OF_REFERENCE = {
    "learned": ("peel2000",),
    "draws": ("peel2000",),
    "nested_laplace": ("rue2009",),
    "model": ("gelman1998",),
    "machines": ("grosse2013",),
}
"""Of what a path starts from; Student-t mixtures are fitted to rows."""
OF_KERNEL = {
    "Langevin": ("roberts1996",),
    "RandomWalk": ("metropolis1953",),
    "IntegerWalk": ("metropolis1953",),
    "Slice": ("neal2003",),
    "Gibbs": ("geman1984",),
    "BlockGibbs": ("geman1984", "salakhutdinov2008"),
}
"""Of moves, the parts of composed ones too; Hamiltonian ones are those of the method."""
OF_ESTIMATOR = {
    "hais": ("sohldickstein2012", "neal2001"),
    "rts": ("carlson2016",),
    "bar": ("bennett1976",),
    "bar_chain": ("bennett1976",),
    "mbar": ("shirts2008",),
    "ts": ("geyer1995",),
    "stepping_stone": ("xie2011",),
    "stepping_stone_reverse": ("xie2011",),
    **dict.fromkeys(
        ("ti_trapezoid", "ti_simpson", "ti_rb", "ti_marginal", "ti_left", "ti_right"),
        ("gelman1998",),
    ),
    "ti_corrected": ("friel2014", "gelman1998"),
    "bridge": ("meng1996", "gronau2017"),
    "manifold_bridge": ("zappa2018", "meng1996"),
    "importance": ("vehtari2024",),
}
OF_ANNEALING = ("sohldickstein2012", "neal2001")
OF_ONE_TEMPERATURE = ("kloek1978", "vehtari2024")
"""Of nested Laplace approximations without a path: no population of a pilot was annealed either."""
WARP = ("meng2002", "gronau2019")
"""Of bridges whose posterior is mirrored and standardised."""


def cite(tree: xr.DataTree) -> str:
    """References of the methods that a run used, as BibTeX.

    Parameters
    ----------
    tree
        Any tree of this package, or of ``pm.sample`` with one of its step methods.

    Returns
    -------
    str
        BibTeX entries, the method's own first, and those of what it started from, its moves and its
        estimators; empty if nothing of this package was used, or if the draws do not show it
        (`PartialMomentumHMC`).

    Raises
    ------
    TypeError
        If it is no DataTree.

    See Also
    --------
    compare_evidence

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_logz as lz
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0, 1)
    ...     y = pm.Normal("y", x, 1, observed=1.0)
    >>> print(lz.cite(lz.sample_hais(model=model, reference="prior", progressbar=False))[:27])
    @article{sohldickstein2012,
    """
    own = kinds.kind_of(tree)
    settings = _settings_of(tree)
    # log p(x) by a log Z that any method may have found: the name of its estimator tells
    kind = None if settings.get("method") == "log_density" else own
    keys = [*OF_KIND.get(kind or "", ()), *_of_settings(settings)]
    if "evidence" in tree.children:
        group = tree["evidence"].to_dataset()
        keys.extend(OF_REFERENCE.get(group.attrs.get("reference", ""), ()))
        if "summed_out" in group.attrs:
            keys.append("zhang1996")
        if " funnel" in group.attrs.get("reference_reason", ""):
            keys.append("papaspiliopoulos2007")
        names: Any = group[ESTIMATOR].values.ravel() if ESTIMATOR in group.coords else []
        for name in map(str, names):
            keys.extend(OF_ESTIMATOR.get(name, ()))
        if group.attrs.get("bridge_method") == "warp3":
            keys.extend(WARP)
        one = group.attrs.get("n_temperatures") == 1
        if one and group.attrs.get("reference") == "nested_laplace":
            keys = [*OF_ONE_TEMPERATURE, *(key for key in keys if key not in OF_ANNEALING)]
    if not keys:
        logger.info(
            "This tree has no result of pymc_logz, so there is nothing to cite: pass the tree that "
            "lz.evidence(idata, model) returned"
        )
    return "\n\n".join(references()[key] for key in dict.fromkeys(keys))


def _settings_of(tree: xr.DataTree) -> Mapping[str, Any]:
    """Settings at the root; none if a tree of another sampler has something else there."""
    try:
        settings = json.loads(tree.attrs.get("settings", "{}"))
    except (TypeError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _of_settings(settings: Mapping[str, Any]) -> Iterator[str]:
    """Keys of what settings tell."""
    yield from OF_METHOD.get(settings.get("method", ""), ())
    if settings.get("betas") == "adaptive":
        yield "zhou2016"
    if settings.get("exchange") == "swap":
        yield "syed2022"
    kernel = settings.get("kernel")
    if isinstance(kernel, dict):
        # parts of a composed kernel are kept as Python writes them
        named = {str(kernel.get("name")), *re.findall(r"(\w+)\(", str(kernel))}
        for name in sorted(named & set(OF_KERNEL)):
            yield from OF_KERNEL[name]


@cache
def references() -> dict[str, str]:
    """Entries of ``references.bib``, as they are written there, by key."""
    text = files("pymc_logz.citations").joinpath("references.bib").read_text(encoding="ascii")
    entries = text.strip().split("\n\n")
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}
