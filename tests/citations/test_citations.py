"""BibTeX of what a run used."""

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz import citations, energies
from pymc_logz.estimators import METHODS
from pymc_logz.kernels import Hamiltonian
from pymc_logz.trees import kinds
from pymc_logz.trees.layout import make_tree

pytestmark = [
    pytest.mark.usefixtures("no_look_in_this_file"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:The number of samples is too small"),
    pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning"),
]
QUIET = {"random_seed": 1, "progressbar": False}
SMALL: dict[str, Any] = {"betas": 4, "kernel": Hamiltonian(step_size=0.3, scale=1.0), "tune": 8}
HAIS = {"sohldickstein2012", "neal2001", "vehtari2024"}
CARLSON = {"carlson2016", "marinari1992"}
BRIDGE = {"meng1996", "gronau2017"}
WARP = BRIDGE | {"meng2002", "gronau2019"}


def keys_of(tree: xr.DataTree) -> set[str]:
    found = re.findall(r"^@\w+{(\w+),$", lz.cite(tree), re.MULTILINE)
    assert len(found) == len(set(found))
    return set(found)


def tree_of(kind: str, settings: dict[str, Any] | None = None, **evidence: Any) -> xr.DataTree:
    """What such a run leaves, as far as citing goes; ``estimator`` names its estimators."""
    names = evidence.pop("estimator", ["rts"])
    group = xr.Dataset(
        {"log_z": ("estimator", np.zeros(len(names)))}, {"estimator": names}, attrs=evidence
    )
    return make_tree({"evidence": group}, settings or {}, kind)


def test_a_run_of_hais() -> None:
    tree = models.quick(models.normal_normal(), draws=32, reference="prior")
    found = lz.cite(tree)
    assert found.startswith("@article{sohldickstein2012,")
    assert keys_of(tree) == {*HAIS, "zhou2016"}
    assert "eprint = {1205.1925}" in found


def test_what_a_path_starts_from_and_moves_by() -> None:
    def keys(reference: str = "prior", reason: str = "", **settings: Any) -> set[str]:
        tree = tree_of(kinds.HAIS, settings, reference=reference, reference_reason=reason)
        tree["evidence"] = xr.DataTree(
            tree["evidence"].to_dataset().assign_coords(estimator=["hais"])
        )
        return keys_of(tree) - HAIS

    assert keys() == set()
    assert keys("nested_laplace") == {"rue2009"}
    assert keys("learned", "1 component whitened by a funnel") == {
        "peel2000",
        "papaspiliopoulos2007",
    }
    assert keys(kernel={"name": "Slice", "width": 1.0}) == {"neal2003"}
    parts = {"name": "Compose", "parts": "(Part(Gibbs(temper=True), 1), Part(RandomWalk(), 1))"}
    assert keys(kernel=parts) == {"geman1984", "metropolis1953"}


def test_one_temperature_is_importance_sampling() -> None:
    """Catches a run without annealing that cites annealing, and one with it that does not."""
    for n, own in ((1, {"kloek1978", "vehtari2024"}), (2, HAIS)):
        tree = tree_of(
            kinds.HAIS, {}, reference="nested_laplace", n_temperatures=n, estimator=["hais"]
        )
        assert keys_of(tree) == own | {"rue2009"}


def test_swaps_and_every_estimator_of_a_tempered_run() -> None:
    tree = tree_of(kinds.TEMPERED, {"exchange": "swap"}, estimator=list(METHODS))
    assert keys_of(tree) == CARLSON | {
        "syed2022", "shirts2008", "geyer1995", "bennett1976", "xie2011", "gelman1998", "friel2014",
    }  # fmt: skip


def test_a_bridge_of_a_posterior_with_settings_of_its_own() -> None:
    """Catches a root of another sampler that is read as ours."""
    for theirs in ("none of ours", "[1, 2]", '{"kernel": "gp"}', 3):
        tree = tree_of(kinds.BRIDGED, estimator=["bridge", "importance"], bridge_method="warp3")
        tree.attrs["settings"] = theirs
        assert keys_of(tree) == WARP | {"vehtari2024"}
    assert keys_of(tree_of(kinds.BRIDGED, estimator=["bridge"])) == BRIDGE


def test_a_posterior_from_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 3)))})
    with caplog.at_level(logging.INFO, logger="pymc.pymc_logz"):
        assert lz.cite(xr.DataTree.from_dict({"posterior": posterior})) == ""
    assert "pass the tree that lz.evidence(idata, model) returned" in caplog.text
    with pytest.raises(TypeError, match="DataTree"):
        lz.cite(posterior)


def test_the_tables_name_what_there_is() -> None:
    """Catches a kind, kernel or estimator that was renamed, and references that nothing cites."""
    own = {"hais", "bar", "bridge", "manifold_bridge", "importance"}
    assert set(citations.OF_ESTIMATOR) == own | set(METHODS)
    assert set(citations.OF_KIND) <= set(kinds.KINDS)
    # what is known by its settings or its estimator, and what is from elsewhere
    told = {kinds.BRIDGED, kinds.ABC, kinds.EXACT, kinds.POSTERIOR, kinds.OTHER}
    assert set(citations.OF_KIND) | told == set(kinds.KINDS)
    assert set(citations.OF_KERNEL) <= set(lz.kernels.__all__)
    tables = ("OF_KIND", "OF_METHOD", "OF_REFERENCE", "OF_KERNEL", "OF_ESTIMATOR")
    cited = {key for table in tables for keys in getattr(citations, table).values() for key in keys}
    cited |= {"zhou2016", "syed2022", "zhang1996", "papaspiliopoulos2007", "kloek1978"}
    cited |= {*citations.WARP}
    assert cited == set(citations.references())


def test_entries_are_bibtex() -> None:
    """Catches braces that do not close, and characters that LaTeX does not read."""
    entries = citations.references()
    found = "\n\n".join(entries.values())
    assert found.isascii()
    for key, entry in entries.items():
        assert entry.count("{") == entry.count("}"), key
        assert found.count(f"{{{key},") == 1
        fields = re.findall(r"^  (\w+) = ", entry, re.MULTILINE)
        assert fields[:2] == ["author", "title"], key
        assert fields[2] in ("journal", "booktitle"), key
        assert fields[3] == "year", key
    for line in found.splitlines():
        assert re.fullmatch(r"@(article|inproceedings){\w+,|  \w+ = {.+},|}|", line), line
    links = re.findall(r"^  (doi|eprint) = {(.+)},$", found, re.MULTILINE)
    forms = {"doi": r"10\.\d{4,5}/\S+", "eprint": r"\d{4}\.\d{4,5}"}
    assert all(re.fullmatch(forms[scheme], link) for scheme, link in links)


def by_step(step: Callable[[], Any]) -> xr.DataTree:
    with models.normal_normal() as model:
        kwargs = {"cores": 1, "compute_convergence_checks": False, **QUIET}
        tree = pm.sample(60, tune=5, chains=2, step=step(), **kwargs)
    return lz.evidence(tree, model, random_seed=1)


def simulator() -> pm.Model:
    with pm.Model() as model:
        rate = pm.LogNormal("rate", 0, 0.5)
        noise = pm.Normal("noise", 0, 1, shape=2)
        lz.ExactObservation("y", rate + 0.3 * noise, observed=np.array([1.0, 1.2]))
    return model


def by_constrained() -> xr.DataTree:
    with simulator() as model:
        tree = pm.sample(200, tune=100, chains=2, cores=1, step=lz.ConstrainedHMC(), **QUIET)
    return lz.bridge_sampling(tree, model, random_seed=1)


def machine(**kwargs: Any) -> Any:
    rng = np.random.default_rng(1)
    rbm = energies.bernoulli_rbm(rng.normal(0, 0.5, (6, 3)), np.zeros(6), np.zeros(3))
    if "data" in kwargs:
        return lz.raise_log_likelihood(rbm, kwargs["data"], draws=16, betas=16, random_seed=1)
    return lz.sample_hais(32, model=rbm, betas=16, **QUIET)


def counted() -> pm.Model:
    with pm.Model() as model:
        n = pm.DiscreteUniform("n", 0, 9)
        pm.Binomial("y", n, 0.5, observed=3)
    return model


STUDENT = energies.student_location()
STEP = {"betas": 4, "kernel": SMALL["kernel"], "pilot_tune": 8}
EVERY: dict[str, tuple[Callable[[], xr.DataTree], set[str]]] = {
    "both": (
        lambda: models.quick(models.normal_normal(), draws=32, direction="both", **SMALL),
        HAIS | {"grosse2015", "bennett1976"},
    ),
    "between": (
        lambda: lz.sample_hais(
            32, model=models.normal_normal(), reference=models.normal_normal(), **QUIET
        ),
        HAIS | {"gelman1998", "zhou2016"},
    ),
    "tempered": (
        lambda: lz.sample_tempered(
            40, 2, model=models.normal_normal(), walkers=8, cores=1, **SMALL, **QUIET
        ),
        CARLSON | {"peel2000"},
    ),
    "bridged": (
        lambda: lz.evidence(
            models.exact_draws(STUDENT, np.random.default_rng(4), 200, 2),
            STUDENT.model,
            random_seed=1,
        ),
        WARP | {"vehtari2024"},
    ),
    "hmc": (
        lambda: lz.sample_hmc(20, model=STUDENT.model, chains=32, tune=30, **QUIET),
        {"duane1987", "margossian2024"},
    ),
    "importance": (
        lambda: lz.importance_sampling({"x": stats.norm(0, 3)}, one_variable(), random_seed=1),
        {"vehtari2024"},
    ),
    "hais_step": (
        lambda: by_step(lambda: lz.HAIS(**STEP, batch_size=64)),
        HAIS | {"andrieu2010"},
    ),
    "tempered_step": (
        lambda: by_step(lambda: lz.SimulatedTempering(**STEP, walkers=4)),
        CARLSON | {"vehtari2024"},
    ),
    "constrained_step": (by_constrained, {"graham2017", "zappa2018", "meng1996"}),
    "abc_rejection": (
        lambda: lz.abc_rejection(simulator(), 0.5, 20_000, random_seed=1),
        {"pritchard1999", "graham2017"},
    ),
    "abc_mcmc": (
        lambda: lz.abc_mcmc(simulator(), 1.0, "rate", 5, tune=20, chains=16, random_seed=1),
        {"marjoram2003", "graham2017"},
    ),
    "abc_slice": (
        lambda: lz.abc_slice(simulator(), 1.0, ["rate"], 5, tune=20, chains=16, random_seed=1),
        {"murray2010", "murray2016", "graham2017"},
    ),
    "exact": (lambda: lz.evidence(counted(), random_seed=1), {"zhang1996"}),
    "machine": (machine, HAIS | {"geman1984", "salakhutdinov2008"}),
    "raised": (
        lambda: machine(data=np.eye(6)[:2]),
        HAIS | {"burda2015", "geman1984", "salakhutdinov2008"},
    ),
    "log_density": (
        lambda: lz.log_density(
            lz.bridge_sampling(
                models.exact_draws(STUDENT, np.random.default_rng(4), 200, 2),
                STUDENT.model,
                random_seed=1,
            ),
            STUDENT.model,
            np.zeros(3),
        ),
        BRIDGE,
    ),
}


def one_variable() -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x, 1, observed=1.0)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore")
def test_every_kind_of_run(name: str) -> None:
    """Catches an attribute or a setting by another name than the tables look for."""
    make, wanted = EVERY[name]
    tree = make()
    assert keys_of(tree) - {"zhou2016"} == wanted - {"zhou2016"}
    json.loads(tree.attrs.get("settings", "{}"))
