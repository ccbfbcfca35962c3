"""The stored capture: what it holds, that it is checked, and that rows are fed with it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fixtures.real_model import pin
from lanes.captured import DATA, FOLDER, INDEX, captured, read
from lanes.captured.capture import write
from lanes.cases import captured as rule
from lanes.catalogue import CAPTURED, cases, corpora
from retrograd.errors import DataError
from retrograd.rows import declared_rows

MOST_BYTES = 600_000


def test_it_is_small_and_names_its_model() -> None:
    assert (FOLDER / DATA).stat().st_size < MOST_BYTES
    index = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))
    assert index["model"] == {"file": pin().file, "sha256": pin().sha256}


def test_it_looks_like_a_model() -> None:
    """The residual stream holds the outlier that such models grow; norms see all tokens."""
    found = captured()
    residual = found.f32("residual")
    assert np.abs(residual).max() > 1000 * np.median(np.abs(residual))
    assert found.arrays["w_q4_1"].shape == (64, 360)
    assert found.arrays["w_q8_0"].shape == (96, 612)
    for name, array in found.arrays.items():
        assert array.size, name
        if array.dtype.kind == "f":
            assert np.isfinite(array).all(), name
            assert np.abs(array).max() > 0, name


def test_arrays_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        captured().f32("q")[0] = 1


@pytest.mark.parametrize("broken", ["bit", "short", "index", "missing"])
def test_other_data_are_refused(broken: str, tmp_path: Path) -> None:
    for name in (DATA, INDEX):
        shutil.copy(FOLDER / name, tmp_path / name)
    data = bytearray((tmp_path / DATA).read_bytes())
    match broken:
        case "bit":
            data[1000] ^= 1
            (tmp_path / DATA).write_bytes(data)
        case "short":
            (tmp_path / DATA).write_bytes(data[:-64])
        case "index":
            (tmp_path / INDEX).write_text("{", encoding="utf-8")
        case _:
            (tmp_path / DATA).unlink()
    with pytest.raises(DataError, match="captured"):
        read(tmp_path)


def test_writing_is_deterministic_and_keeps_every_byte(tmp_path: Path) -> None:
    found = captured()
    digest = write(dict(found.arrays), dict(found.numbers), tmp_path)
    for name in (DATA, INDEX):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()
    assert digest == json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))["sha256"]


def test_every_row_with_inputs_is_fed() -> None:
    unfed = {row.op for row in declared_rows() if not rule.feeds(row)}
    assert unfed == {"fill"}
    for row in declared_rows():
        for plan in ("fast", "full"):
            assert corpora(row, plan).get(CAPTURED, 0) == rule.feeds(row)
        made = list(cases(row, "fast", CAPTURED)) if rule.feeds(row) else []
        assert [case.corpus for case in made] == [CAPTURED] * rule.feeds(row)
