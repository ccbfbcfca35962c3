"""Lane `abi`.

Size, alignment and offsets of every struct of the native interface, from both sides.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from lanes.catalogue import drawn
from lanes.layouts import committed, committed_structs, compiled, declared_fields, implied, inferred
from lanes.observation import Observe
from lanes.registry import Need, Planned, lane
from lanes.trial import device, storage_of
from retrograd.ops import OPS
from retrograd.optim import adamw, sgd
from retrograd.rows import declared_rows

ROWS = {row.id: row for row in declared_rows()}
SETTINGS = {
    "AdamwSettings": tuple(adamw.SETTINGS),
    "SgdSettings": tuple(sgd.SETTINGS),
}


def _arguments(_plan: str) -> Iterator[Planned]:
    return (Planned("abi.arguments", row) for row in ROWS)


def _shapes(_plan: str) -> Iterator[Planned]:
    return (Planned("abi.shapes", name) for name, row in ROWS.items() if row.op in OPS)


def _structs(_plan: str) -> Iterator[Planned]:
    return iter([Planned("abi.structs", "compiled")])


def _settings(_plan: str) -> Iterator[Planned]:
    return (Planned("abi.settings", name) for name in SETTINGS)


@lane("abi", rows=_arguments, needs=(Need.DEVICE,))
def test_argument_struct_is_what_the_signature_implies(
    row: str, case: str, observe: Observe
) -> None:
    """The library's own table against the layout computed from the op's signature."""
    del row
    actual = device(1, None).layouts[case]
    expected = implied(ROWS[case], next(drawn(ROWS[case], 0, fast=True)))
    same = (actual.fields, actual.n_bytes, actual.alignment) == (
        expected.fields,
        expected.n_bytes,
        expected.alignment,
    )
    observe.equal(len(expected.fields) + 2, int(not same))
    assert actual.fields == expected.fields
    assert same


@lane("abi", rows=_shapes)
def test_shape_rule_agrees_with_the_cases(row: str, case: str, observe: Observe) -> None:
    """Dimensions and output shapes that the op infers are those that the cases were written with.

    The rule does not see the storage format, so that one case of a quantized row is enough.
    """
    del row
    declared, compared, wrong = ROWS[case], 0, list[str]()
    for one in islice(drawn(declared, 0, fast=True), None if storage_of(declared) == "f32" else 1):
        rule = inferred(declared, one)
        found = {"dims": dict(rule.dims), **{n: rule.outputs[n] for n in one.outputs}}
        wanted = {"dims": dict(one.dims), **one.outputs}
        compared += len(wanted)
        wrong += [f"{one.name}: {n}" for n, want in wanted.items() if found[n] != want]
    observe.equal(compared, len(wrong), seeds=(0,))
    assert wrong == []


@lane("abi", rows=_structs, needs=(Need.COMPILER,))
def test_structs_are_as_committed(row: str, case: str, tmp_path: Path, observe: Observe) -> None:
    """What the C++ compiler prints against ``lanes/abi.toml``, both ways."""
    del row, case
    table = committed()
    expected: dict[str, object] = {"abi_version": table["abi_version"], **table["codes"]}
    for struct, layout in committed_structs().items():
        expected |= {f"{struct}.size": layout.n_bytes, f"{struct}.alignment": layout.alignment}
        expected |= {f"{struct}.{field}": offset for field, offset in layout.offsets.items()}
    printed = compiled(tmp_path)
    names = printed.keys() | expected.keys()
    observe.equal(len(names), sum(printed.get(n) != expected.get(n) for n in names))
    assert printed == expected


@lane("abi", rows=_settings)
def test_settings_arrays_follow_their_structs(row: str, case: str, observe: Observe) -> None:
    """The host fills optimizer settings as float32 arrays in the order of the C++ fields."""
    del row
    fields = tuple(declared_fields(case))
    observe.equal(len(fields), int(SETTINGS[case] != fields))
    assert SETTINGS[case] == fields
    assert np.dtype(np.float32).itemsize == 4
