"""Which files of a checkout are results: written by runs or made from receipts, read by no lane.

They make no tree dirty and no row stale: the first receipt would otherwise spoil the second.
"""

STAMP = "source-stamp.json"
GENERATED = (
    "reports/receipts/",
    "reports/releases/",
    "reports/support.html",
    "docs/walkthrough.md",
    "src/retrograd/table.json",
    "SUPPORT.md",
    STAMP,
)


def is_generated(name: str) -> bool:
    """Whether a path below the checkout holds results only."""
    return any(name == g or (g.endswith("/") and name.startswith(g)) for g in GENERATED)
