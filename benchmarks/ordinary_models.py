"""log Z of ordinary models: our defaults against a default ``pm.sample`` and ``pm.sample_smc``.

Every method calls each model of the gallery twice in a process of its own: cold, compilation
included, and again with another seed. What is compared: seconds, evaluations (row gradients; of
``pm.sample_smc`` likelihoods), log Z and its error, and how far methods are apart in units of their
errors; a bridge from the draws of ``pm.sample`` is one more of them. Run it with ``uv run
benchmarks/ordinary_models.py``; names of models choose among them. It takes hours: ``--results``
names a file of JSON lines from which a run that was cut continues.

Compiled code that PyTensor and JAX keep on disk is used as a user's would be: of two runs the
second has it.
"""

import argparse
import tempfile
from pathlib import Path

from side_by_side.processes import EXACT, Results, measured
from side_by_side.tables import (
    COLUMNS,
    aligned,
    by_model,
    comma_separated,
    cost_table,
    page_table,
    summary,
)

PAGE = Path(__file__).parents[1] / "docs" / "theory" / "ordinary_models.md"
QUICK = ("quickstart", "zero_inflated", "eight_schools")
OURS = ("sample_hais", "evidence")
METHODS = (EXACT, "pm.sample", "pm.sample_smc", *OURS)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    from gallery import MODELS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], metavar="name")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a method may take")
    parser.add_argument("--results", type=Path, help="file of JSON lines to continue")
    parser.add_argument("--csv", type=Path, help="file for the table as comma-separated values")
    parser.add_argument("--page", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--list", action="store_true", help="show the models and leave")
    given = parser.parse_args()
    if given.list:
        parser.exit(message="\n".join(f"{e.name}: {e.about}" for e in MODELS.values()) + "\n")
    given.names = given.names or list(QUICK if given.quick else MODELS)
    return given


def main() -> None:
    """Measure what is not in the file of results yet, and show it all."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        results = Results(given.results or Path(folder) / "results.jsonl")
        for name in given.names:
            for method in given.methods:
                if not results.has(name, method):
                    results.add(measured(name, method, given.limit))
            [compared] = by_model(results.records, [name])
            print(aligned(COLUMNS, compared.rows()), flush=True)
    compared = by_model(results.records, given.names)
    print(aligned(COLUMNS, [row for model in compared for row in model.rows()]))
    for method in OURS:
        print("\n" + cost_table(compared, method))
    print("\n" + summary(compared))
    if given.csv:
        given.csv.write_text(comma_separated(compared))
    if given.page:
        write_page(page_table(compared))


def write_page(table: str) -> None:
    """Put the table between the marks of its page."""
    begin, end = "<!-- begin ordinary models -->\n", "<!-- end ordinary models -->\n"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(f"{before}{begin}\n{table}\n\n{end}{rest.split(end)[1]}")


if __name__ == "__main__":
    main()
