"""Lane `abi`.

Size, alignment and offsets of every struct of the native interface, from both sides.
"""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from lanes.catalogue import drawn
from lanes.layouts import committed, committed_structs, compiled, declared_fields, implied, inferred
from lanes.trial import device, storage_of
from retrograd.ops import OPS
from retrograd.optim import adamw, sgd
from retrograd.rows import Row, declared_rows

ROWS = declared_rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_argument_struct_is_what_the_signature_implies(row: Row) -> None:
    """The library's own table against the layout computed from the op's signature."""
    actual = device(1, None).layouts[row.id]
    expected = implied(row, next(drawn(row, 0, fast=True)))
    assert actual.fields == expected.fields
    assert (actual.n_bytes, actual.alignment) == (expected.n_bytes, expected.alignment)


@pytest.mark.parametrize("row", [row for row in ROWS if row.op in OPS], ids=lambda row: row.id)
def test_shape_rule_agrees_with_the_cases(row: Row) -> None:
    """Dimensions and output shapes that the op infers are those that the cases were written with.

    The rule does not see the storage format, so that one case of a quantized row is enough.
    """
    for case in islice(drawn(row, 0, fast=True), None if storage_of(row) == "f32" else 1):
        rule = inferred(row, case)
        assert dict(rule.dims) == dict(case.dims)
        for name, (shape, dtype) in case.outputs.items():
            assert rule.outputs[name] == (shape, dtype)


def test_structs_are_as_committed(tmp_path: Path) -> None:
    """What the C++ compiler prints against ``lanes/abi.toml``, both ways."""
    table = committed()
    expected: dict[str, object] = {"abi_version": table["abi_version"], **table["codes"]}
    for struct, layout in committed_structs().items():
        expected |= {f"{struct}.size": layout.n_bytes, f"{struct}.alignment": layout.alignment}
        expected |= {f"{struct}.{field}": offset for field, offset in layout.offsets.items()}
    assert compiled(tmp_path) == expected


def test_settings_arrays_follow_their_structs() -> None:
    """The host fills optimizer settings as float32 arrays in the order of the C++ fields."""
    assert list(adamw.SETTINGS) == declared_fields("AdamwSettings")
    assert list(sgd.SETTINGS) == declared_fields("SgdSettings")
    assert np.dtype(np.float32).itemsize == 4
