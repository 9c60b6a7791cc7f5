"""Picture of README.md: what its block of code makes, saved as a file.

Run it with ``uv run docs/figures/first_bayes_factor.py`` from the root of the repository.
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Run the block, and save the picture."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    names: dict = {}
    exec(block[1], names)
    collection = names["lz"].plot_evidence(names["runs"], backend="matplotlib")
    figure = collection.viz["figure"].item()
    figure.savefig(ROOT / "docs" / "_static" / "first_bayes_factor.png", dpi=160)


if __name__ == "__main__":
    main()
