"""The papers' claims, each with a number that was measured here, and the verdict that follows.

Numbers are in ``results/claims.json``, copied from the outputs of the scripts that it names; or it
names a function of measured.py (``"from"``), which makes them of the scripts' data files.
``uv run examples/papers/claims.py`` writes the table into docs/theory/claims.md.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

import measured

HERE = Path(__file__).parent
NUMBERS = HERE / "results" / "claims.json"
PAGE = HERE.parents[1] / "docs" / "theory" / "claims.md"
START, END = "<!-- table -->\n", "<!-- end of table -->\n"
HEAD = """\
| paper | what it says | measured here | size here | size there | verdict | script |
|---|---|---|---|---|---|---|
"""


def claims():
    """All claims, each with its number and the ends of its interval."""
    return [filled(claim) for claim in json.loads(NUMBERS.read_text())]


def filled(claim):
    """A claim with the number that the data files have for it, to three digits."""
    if "from" not in claim:
        return claim
    name, *arguments = claim["from"]
    numbers = getattr(measured, name)(*arguments)
    found = (None if one is None else float(f"{one:.3g}") for one in numbers)
    return claim | dict(zip(("value", "low", "high"), found, strict=True))


def holds(value, claim):
    """Whether a number is on the claim's side of its threshold."""
    if "at_least" in claim:
        return value >= claim["at_least"]
    return value <= claim["at_most"]


def verdict(claim):
    """Reproduced, partly, not, refuted, or not tested, by the numbers alone.

    - not tested: there is no number.
    - reproduced: the number is on the claim's side of the threshold, and so is all of its interval,
      if it has one.
    - partly: the number is on that side, the interval is not.
    - not at this size: the number is on the other side, at a size too small to speak against it.
    - not: it is on the other side, and the interval reaches the threshold, or there is none.
    - refuted: all of its interval is on the other side.
    """
    if claim["value"] is None:
        return "not tested"
    interval = [end for end in (claim["low"], claim["high"]) if end is not None]
    if holds(claim["value"], claim):
        return "reproduced" if all(holds(end, claim) for end in interval) else "partly"
    if claim.get("too_small"):
        return "not at this size"
    return "refuted" if interval and not any(holds(end, claim) for end in interval) else "not"


def row(claim):
    """One line of the table."""
    number = "" if claim["value"] is None else f": {claim['value']:g}"
    if claim["low"] is not None:
        number += f" ({claim['low']:g} to {claim['high']:g})"
    parts = (
        claim["paper"],
        claim["claim"],
        claim["measured"] + number,
        claim["size"],
        claim["paper_size"],
        verdict(claim),
        f"`{claim['script']}`",
    )
    return f"| {' | '.join(parts)} |\n"


def table():
    """All claims as a table in Markdown."""
    return HEAD + "".join(map(row, claims()))


def written(page):
    """A page with the table in its place."""
    before, rest = page.split(START)
    return before + START + table() + END + rest.split(END)[1]


def main():
    """Write the page anew, and show its table."""
    PAGE.write_text(written(PAGE.read_text()))
    print(table())


if __name__ == "__main__":
    main()
