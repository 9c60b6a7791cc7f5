"""Flow chart of the page "Which method?": from what there is to the call, light and dark,
wide and narrow.

Run it with ``uv run docs/figures/which_method.py``; it writes four SVG files to ``docs/_static``.
"""

from html import escape
from pathlib import Path

STATIC = Path(__file__).parents[1] / "_static"
WIDTH, ROW, TOP = 780, 104, 14
LEFT, QUESTION, CALL, BOX = 14, 276, 350, 76
"""Left edge and width of questions, left edge of calls, height of both."""
NARROW, NARROW_ROW, CALL_INDENT = 380, 206, 44
"""The same on a phone: width, height of a question with its call, left edge of calls."""

STEPS = [
    (
        ("A simulator and its noise,", "output observed exactly?"),
        ("pm.sample(step=lz.ConstrainedHMC())", "lz.bridge_sampling(idata, simulator)"),
        "minutes; no likelihood, no tolerance",
    ),
    (
        ("Latent variables of its own", "for each datum?"),
        ("lz.marginal_log_likelihood(model, data)",),
        "log p(x) of each; seconds for tens of rows",
    ),
    (
        ("A model of x itself: experts,", "a Boltzmann machine?"),
        ("lz.sample_hais(model=model), lz.log_density", "lz.LogZTracker while it is learned"),
        "one log Z for all data",
    ),
    (
        ("Draws of the posterior,", "and the model they are of?"),
        ("lz.evidence(idata, model)",),
        "about a second; nothing is sampled again",
    ),
    (
        ("Several modes, or log Z at", "every temperature wanted?"),
        ("lz.sample_tempered(model=model)",),
        "some seconds; every draw counts at every temperature",
    ),
    (
        ("A model with proper priors,", "whole numbers included?"),
        ("lz.evidence(model)",),
        "5 to 15 s of compiling, then mostly below 1 s",
    ),
]
PALETTES = {
    "light": {
        "text": "#1b1f24",
        "soft": "#57606a",
        "line": "#8c959f",
        "question": "#ffffff",
        "call": "#e3f0f8",
        "edge": "#0072b2",
    },
    "dark": {
        "text": "#e6edf3",
        "soft": "#a5b0bb",
        "line": "#8b949e",
        "question": "#1f242b",
        "call": "#12344a",
        "edge": "#56b4e9",
    },
}


def box(x: float, y: float, width: float, fill: str, edge: str) -> str:
    """A rounded rectangle."""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="8" fill="{fill}" '
        f'stroke="{edge}" stroke-width="1.5"/>'
    )


def text(x: float, y: float, words: str, fill: str, *, size: int = 16, mono: bool = False) -> str:
    """One line of text."""
    family = "ui-monospace, DejaVu Sans Mono, Menlo, monospace" if mono else "sans-serif"
    return (
        f'<text x="{x}" y="{y}" font-family="{family}" font-size="{size}" fill="{fill}">'
        f"{escape(words)}</text>"
    )


def arrow(x0: float, y0: float, x1: float, y1: float, color: str) -> str:
    """A line with a head."""
    return (
        f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="{color}" stroke-width="1.5" '
        'marker-end="url(#head)"/>'
    )


def step(k: int, colors: dict[str, str]) -> list[str]:
    """One question, its call, and the arrows that leave the question."""
    question, calls, cost = STEPS[k]
    y = TOP + k * ROW
    middle = y + BOX / 2
    drawn = [
        box(LEFT, y, QUESTION, colors["question"], colors["line"]),
        box(CALL, y, WIDTH - CALL - LEFT, colors["call"], colors["edge"]),
        arrow(LEFT + QUESTION, middle, CALL - 3, middle, colors["line"]),
        text(LEFT + QUESTION + 22, middle - 7, "yes", colors["soft"], size=15),
    ]
    drawn += [
        text(LEFT + 16, middle - 6 + 23 * i, words, colors["text"], size=17)
        for i, words in enumerate(question)
    ]
    lines = len(calls) + 1
    first = middle - 20 * (lines - 1) / 2 + 5
    drawn += [
        text(CALL + 14, first + 20 * i, call, colors["text"], size=15, mono=True)
        for i, call in enumerate(calls)
    ]
    drawn.append(text(CALL + 14, first + 20 * (lines - 1), cost, colors["soft"], size=15))
    if k + 1 < len(STEPS):
        drawn.append(arrow(LEFT + 60, y + BOX, LEFT + 60, y + ROW - 3, colors["line"]))
        drawn.append(text(LEFT + 72, y + BOX + 20, "no", colors["soft"], size=15))
    return drawn


def narrow_step(k: int, colors: dict[str, str]) -> list[str]:
    """One question with its call below it, for phones; "no" goes down the left edge."""
    question, calls, cost = STEPS[k]
    y = TOP + k * NARROW_ROW
    below = y + BOX + 26
    inner = NARROW - CALL_INDENT - 4
    drawn = [
        box(4, y, NARROW - 8, colors["question"], colors["line"]),
        box(CALL_INDENT, below, inner, colors["call"], colors["edge"]),
        arrow(CALL_INDENT + 24, y + BOX, CALL_INDENT + 24, below - 3, colors["line"]),
        text(CALL_INDENT + 34, y + BOX + 18, "yes", colors["soft"], size=14),
    ]
    drawn += [
        text(18, y + 32 + 23 * i, words, colors["text"], size=17)
        for i, words in enumerate(question)
    ]
    first = below + BOX / 2 - 10 * len(calls) + 5
    drawn += [
        text(CALL_INDENT + 10, first + 20 * i, call, colors["text"], size=12, mono=True)
        for i, call in enumerate(calls)
    ]
    drawn.append(text(CALL_INDENT + 10, first + 20 * len(calls), cost, colors["soft"], size=12))
    if k + 1 < len(STEPS):
        drawn.append(arrow(16, y + BOX, 16, y + NARROW_ROW - 3, colors["line"]))
        drawn.append(text(22, below + BOX - 4, "no", colors["soft"], size=14))
    return drawn


def chart(colors: dict[str, str], narrow: bool) -> str:
    """The whole picture."""
    width = NARROW if narrow else WIDTH
    height = TOP + len(STEPS) * NARROW_ROW if narrow else TOP + len(STEPS) * ROW - (ROW - BOX) + 14
    one = narrow_step if narrow else step
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z" '
        f'fill="{colors["line"]}"/></marker></defs>'
    )
    parts = [part for k in range(len(STEPS)) for part in one(k, colors)]
    body = "\n".join([head, *parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" '
        f'width="{width}" height="{height:.0f}">\n{body}\n</svg>\n'
    )


def main() -> None:
    """Write all four files."""
    for name, colors in PALETTES.items():
        for narrow in (False, True):
            file = STATIC / f"which_method_{'narrow_' * narrow}{name}.svg"
            file.write_text(chart(colors, narrow), encoding="utf-8")


if __name__ == "__main__":
    main()
