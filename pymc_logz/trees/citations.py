"""How to cite a run: the references of the methods that it used, as BibTeX."""

import json
from typing import Any, NamedTuple

import xarray as xr

from pymc_logz.trees.kinds import (
    CONSTRAINED_STEP,
    HAIS,
    HAIS_BOTH,
    HAIS_STEP,
    HMC,
    IMPORTANCE,
    MANIFOLD_BRIDGED,
    PER_DATUM,
    TEMPERED,
    TEMPERED_STEP,
    TRACKED,
    TRACKED_MOMENT,
    kind_of,
)
from pymc_logz.trees.layout import ESTIMATOR


class Source(NamedTuple):
    """One reference, as far as BibTeX asks for it."""

    kind: str
    authors: str
    year: int
    title: str
    where: str
    """Journal or book."""
    link: str
    """``doi:...`` or ``arXiv:...``, or none."""


SOURCES = {
    "neal2001": Source(
        "article",
        "Neal, Radford M.",
        2001,
        "Annealed importance sampling",
        "Statistics and Computing",
        "doi:10.1023/A:1008923215028",
    ),
    "sohldickstein2012": Source(
        "article",
        "Sohl-Dickstein, Jascha and Culpepper, Benjamin J.",
        2012,
        "Hamiltonian annealed importance sampling for partition function estimation",
        "arXiv preprint",
        "arXiv:1205.1925",
    ),
    "zhou2016": Source(
        "article",
        "Zhou, Yan and Johansen, Adam M. and Aston, John A. D.",
        2016,
        "Toward automatic model comparison: an adaptive sequential {Monte Carlo} approach",
        "Journal of Computational and Graphical Statistics",
        "doi:10.1080/10618600.2015.1060885",
    ),
    "grosse2015": Source(
        "article",
        "Grosse, Roger B. and Ghahramani, Zoubin and Adams, Ryan P.",
        2015,
        "Sandwiching the marginal likelihood using bidirectional {Monte Carlo}",
        "arXiv preprint",
        "arXiv:1511.02543",
    ),
    "bennett1976": Source(
        "article",
        "Bennett, Charles H.",
        1976,
        "Efficient estimation of free energy differences from {Monte Carlo} data",
        "Journal of Computational Physics",
        "doi:10.1016/0021-9991(76)90078-4",
    ),
    "carlson2016": Source(
        "inproceedings",
        "Carlson, David and Stinson, Patrick and Pakman, Ari and Paninski, Liam",
        2016,
        "Partition functions from {Rao-Blackwellized} tempered sampling",
        "Proceedings of the 33rd International Conference on Machine Learning",
        "arXiv:1603.01912",
    ),
    "marinari1992": Source(
        "article",
        "Marinari, Enzo and Parisi, Giorgio",
        1992,
        "Simulated tempering: a new {Monte Carlo} scheme",
        "Europhysics Letters",
        "doi:10.1209/0295-5075/19/6/002",
    ),
    "syed2022": Source(
        "article",
        "Syed, Saifuddin and Bouchard-C{\\^o}t{\\'e}, Alexandre and Deligiannidis, George and "
        "Doucet, Arnaud",
        2022,
        "Non-reversible parallel tempering: a scalable highly parallel {MCMC} scheme",
        "Journal of the Royal Statistical Society Series B",
        "arXiv:1905.02939",
    ),
    "shirts2008": Source(
        "article",
        "Shirts, Michael R. and Chodera, John D.",
        2008,
        "Statistically optimal analysis of samples from multiple equilibrium states",
        "Journal of Chemical Physics",
        "doi:10.1063/1.2978177",
    ),
    "xie2011": Source(
        "article",
        "Xie, Wangang and Lewis, Paul O. and Fan, Yu and Kuo, Lynn and Chen, Ming-Hui",
        2011,
        "Improving marginal likelihood estimation for {Bayesian} phylogenetic model selection",
        "Systematic Biology",
        "doi:10.1093/sysbio/syq085",
    ),
    "gelman1998": Source(
        "article",
        "Gelman, Andrew and Meng, Xiao-Li",
        1998,
        "Simulating normalizing constants: from importance sampling to bridge sampling to path "
        "sampling",
        "Statistical Science",
        "doi:10.1214/ss/1028905934",
    ),
    "friel2014": Source(
        "article",
        "Friel, Nial and Hurn, Merrilee and Wyse, Jason",
        2014,
        "Improving power posterior estimation of statistical evidence",
        "Statistics and Computing",
        "doi:10.1007/s11222-013-9397-1",
    ),
    "meng1996": Source(
        "article",
        "Meng, Xiao-Li and Wong, Wing Hung",
        1996,
        "Simulating ratios of normalizing constants via a simple identity: a theoretical "
        "exploration",
        "Statistica Sinica",
        "",
    ),
    "meng2002": Source(
        "article",
        "Meng, Xiao-Li and Schilling, Stephen",
        2002,
        "Warp bridge sampling",
        "Journal of Computational and Graphical Statistics",
        "doi:10.1198/106186002457",
    ),
    "gronau2017": Source(
        "article",
        "Gronau, Quentin F. and Sarafoglou, Alexandra and Matzke, Dora and Ly, Alexander and "
        "Boehm, Udo and Marsman, Maarten and Leslie, David S. and Forster, Jonathan J. and "
        "Wagenmakers, Eric-Jan and Steingroever, Helen",
        2017,
        "A tutorial on bridge sampling",
        "Journal of Mathematical Psychology",
        "arXiv:1703.05984",
    ),
    "vehtari2024": Source(
        "article",
        "Vehtari, Aki and Simpson, Daniel and Gelman, Andrew and Yao, Yuling and Gabry, Jonah",
        2024,
        "Pareto smoothed importance sampling",
        "Journal of Machine Learning Research",
        "arXiv:1507.02646",
    ),
    "graham2017": Source(
        "article",
        "Graham, Matthew M. and Storkey, Amos J.",
        2017,
        "Asymptotically exact inference in differentiable generative models",
        "Electronic Journal of Statistics",
        "arXiv:1605.07826",
    ),
    "duane1987": Source(
        "article",
        "Duane, Simon and Kennedy, A. D. and Pendleton, Brian J. and Roweth, Duncan",
        1987,
        "Hybrid {Monte Carlo}",
        "Physics Letters B",
        "doi:10.1016/0370-2693(87)91197-X",
    ),
    "margossian2024": Source(
        "article",
        "Margossian, Charles C. and Hoffman, Matthew D. and Sountsov, Pavel and "
        "Riou-Durand, Lionel and Vehtari, Aki and Gelman, Andrew",
        2024,
        "Nested {R-hat}: assessing the convergence of {Markov} chain {Monte Carlo} when running "
        "many short chains",
        "Bayesian Analysis",
        "doi:10.1214/24-BA1453",
    ),
}
"""What is cited, by its key."""

OF_KIND = {
    **dict.fromkeys((HAIS, HAIS_STEP, PER_DATUM), ("sohldickstein2012", "neal2001")),
    HAIS_BOTH: ("sohldickstein2012", "neal2001", "grosse2015"),
    **dict.fromkeys(
        (TEMPERED, TEMPERED_STEP, TRACKED, TRACKED_MOMENT), ("carlson2016", "marinari1992")
    ),
    CONSTRAINED_STEP: ("graham2017",),
    MANIFOLD_BRIDGED: ("graham2017", "meng1996"),
    HMC: ("duane1987", "margossian2024"),
    IMPORTANCE: ("vehtari2024",),
}
OF_ESTIMATOR = {
    "bar": ("bennett1976",),
    "bar_chain": ("bennett1976",),
    "mbar": ("shirts2008",),
    "stepping_stone": ("xie2011",),
    "stepping_stone_reverse": ("xie2011",),
    "ti_corrected": ("friel2014", "gelman1998"),
    "bridge": ("meng1996", "meng2002", "gronau2017"),
    "manifold_bridge": ("graham2017", "meng1996"),
    "importance": ("vehtari2024",),
}


def cite(tree: xr.DataTree) -> str:
    """References of the methods that a run used, as BibTeX.

    Parameters
    ----------
    tree
        Any tree of this package, or of ``pm.sample`` with one of its step methods.

    Returns
    -------
    str
        BibTeX entries, the method's own first; empty where nothing of this package was used.

    Raises
    ------
    TypeError
        If it is no DataTree.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_logz as lz
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0, 1)
    ...     y = pm.Normal("y", x, 1, observed=1.0)
    >>> print(lz.cite(lz.sample_hais(model=model, random_seed=1, progressbar=False))[:27])
    @article{sohldickstein2012,
    """
    keys = [*OF_KIND.get(kind_of(tree), ())]
    settings = json.loads(tree.attrs.get("settings", "{}"))
    if settings.get("betas") == "adaptive":
        keys.append("zhou2016")
    if settings.get("exchange") == "swap":
        keys.append("syed2022")
    if "evidence" in tree.children:
        group = tree["evidence"].to_dataset()
        names: Any = group[ESTIMATOR].values.ravel() if ESTIMATOR in group.coords else []
        for name in map(str, names):
            keys.extend(OF_ESTIMATOR.get(name, ("gelman1998",) if name[:3] == "ti_" else ()))
    return "\n\n".join(_entry(key, SOURCES[key]) for key in dict.fromkeys(keys))


def _entry(key: str, source: Source) -> str:
    """One reference in BibTeX's form."""
    place = "booktitle" if source.kind == "inproceedings" else "journal"
    fields = {
        "author": source.authors,
        "title": source.title,
        place: source.where,
        "year": str(source.year),
    }
    scheme, _, link = source.link.partition(":")
    if scheme == "doi":
        fields["doi"] = link
    elif scheme == "arXiv":
        fields |= {"eprint": link, "archiveprefix": "arXiv"}
    lines = (f"  {name} = {{{value}}}," for name, value in fields.items())
    return "\n".join([f"@{source.kind}{{{key},", *lines, "}"])
