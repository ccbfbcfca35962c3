"""The ABI lane's own reading: field names from headers, and layouts that notice a change."""

from dataclasses import replace

import pytest

from lanes import layouts
from lanes.catalogue import drawn
from retrograd.ops import OPS
from retrograd.rows import Row, declared_rows


def _row(row_id: str) -> Row:
    return next(row for row in declared_rows() if row.id == row_id)


def test_fields_are_read_from_the_header() -> None:
    assert layouts.declared_fields("RetroStatus") == ["code", "text"]
    assert layouts.declared_fields("SgdSettings") == ["lr", "mu", "w"]
    assert layouts.declared_fields("RetroBackend")[4:6] == ["open", "close"]
    with pytest.raises(KeyError):
        layouts.declared_fields("NoSuchStruct")


def test_every_committed_struct_lists_its_fields_in_order() -> None:
    for struct, layout in layouts.committed_structs().items():
        assert list(layout.offsets) == layouts.declared_fields(struct)


def test_every_setting_has_a_committed_type() -> None:
    names = {n for op in OPS.values() for kernel in op.kernels.values() for n in kernel.settings}
    assert names == set(layouts.committed()["settings"])


def test_layout_follows_the_c_rules() -> None:
    """Two 4-byte settings share a word; the 64-bit seed stands before them.

    The end is padded to 8.
    """
    row = _row("dropout.forward.f32.cpu")
    layout = layouts.implied(row, next(drawn(row, 0, fast=True)))
    assert [(name, offset) for name, _, offset, _ in layout.fields[4:]] == [
        ("T", 32),
        ("C", 40),
        ("seed", 48),
        ("tensor", 56),
        ("threshold", 60),
        ("scale", 64),
    ]
    assert (layout.n_bytes, layout.alignment) == (72, 8)


def test_a_changed_signature_changes_the_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _row("rms_norm.forward.f32.cpu")
    case = next(drawn(row, 0, fast=True))
    before = layouts.implied(row, case)
    kernel = OPS["rms_norm"].kernels["forward"]
    swapped = replace(kernel, outputs=("r", "y"))
    monkeypatch.setattr(
        layouts, "OPS", {"rms_norm": replace(OPS["rms_norm"], kernels={"forward": swapped})}
    )
    assert layouts.implied(row, case).fields != before.fields
