"""Lane `rope_tables`: the product's cosine and sine tables against the oracle's, by scaling."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fixtures import tiny
from lanes.ceilings import ROUNDED_ONCE
from lanes.comparator import within
from lanes.observation import Observe, Tally, gap
from lanes.registry import Planned, lane
from oracles.rope_tables import Llama3, frequencies, tables
from retrograd.families import read_config, recognise
from retrograd.families.family import RopeScaling
from retrograd.families.rope_tables import rope_tables
from retrograd.gguf import open_gguf

POSITIONS = 300
FACTORS = np.linspace(1.0, 32.0, 8).astype(np.float32)
LLAMA3 = Llama3(8.0, 1.0, 4.0, 64)  # a context short enough that all three bands occur
SCALINGS: dict[str, tuple[RopeScaling, dict[str, Any], Any]] = {
    "none": (RopeScaling(), {}, None),
    "linear": (RopeScaling("linear", 4.0), {"linear": 4.0}, None),
    "llama3": (RopeScaling("llama3", 8.0, 1.0, 4.0, 64), {"llama3": LLAMA3}, None),
    "factors": (RopeScaling(), {"factors": FACTORS.astype(np.float64)}, FACTORS),
}


def _scalings(_plan: str) -> Iterator[Planned]:
    return (Planned(f"rope_tables.{name}", "tables", inputs=1) for name in SCALINGS)


@lane("rope_tables", rows=_scalings)
def test_tables_are_the_rounded_oracle(
    row: str, case: str, tmp_path: Path, observe: Observe
) -> None:
    """Both tables, every position and pair; a scaling that is left out would show at once."""
    del case
    name = row.removeprefix("rope_tables.")
    scaling, rule, factors = SCALINGS[name]
    file = open_gguf(tiny.write(tiny.recipe(layers=1), tmp_path))
    config = replace(read_config(file, recognise(file)), rope_scaling=scaling)
    f = frequencies(config.n_rot, config.rope_base, **rule)
    got, want = rope_tables(config, POSITIONS, factors), tables(POSITIONS, f)
    # Near a zero of the function, the rounding of the angle in float64 is what is lost.
    sizes = np.arange(POSITIONS)[:, None] * f * 2.0**-40
    tally = Tally()
    tally.add(gap(t, exact, magnitude=sizes) for t, exact in zip(got, want, strict=True))
    observe(tally, grade="bounded", bound=ROUNDED_ONCE)
    for table, exact in zip(got, want, strict=True):
        verdict = within(table, exact, bound=ROUNDED_ONCE, magnitude=sizes)
        assert verdict.holds, verdict.reason
    if name != "none":
        plain = rope_tables(replace(config, rope_scaling=RopeScaling()), POSITIONS, None)
        assert not np.array_equal(got[0], plain[0])
