"""One rounding of the RMS norm is flipped: all that hangs on it says so, up to the release.

A checkout of its own goes from good to released, is edited, rebuilt, and found out at each station:
by the library's digest at run time, by the table, by the lane, on the page, and by the release.
"""

import json
import re
import shutil
import sys
import time
from pathlib import Path

from evidence_checkout import Checkout
from tiny_runs import write_run

from lanes.digests import Sources, current_digests
from lanes.lane_rows import lane_row_digests
from retrograd.version import VERSION

ROW = "rms_norm.forward.f32.cpu"
KERNEL = "native/cpu/rms_norm.cpp"
ROUNDED = "const float r = 1.0f / std::sqrt(mean_square + eps);"
# The reciprocal root is rounded once more, to a multiple of 1/256.
FLIPPED = "const float r = std::round(256.0f / std::sqrt(mean_square + eps)) / 256.0f;"
RECEIPTS = "reports/receipts"
TABLE, SUPPORT = "src/retrograd/table.json", "SUPPORT.md"
CELL = "training.lora-sft.cpu"


def flip(root: Path) -> None:
    path = root / KERNEL
    text = path.read_text(encoding="utf-8")
    assert text.count(ROUNDED) == 1
    path.write_text(text.replace(ROUNDED, FLIPPED), encoding="utf-8")


def test_a_flipped_rounding_is_found_at_every_station(tmp_path: Path, plan: str) -> None:
    checkout = Checkout(tmp_path / "tree")
    before = current_digests(Sources(checkout.root))
    flip(checkout.root)
    after = current_digests(Sources(checkout.root))
    changed = {row for row in before if before[row] != after[row]}
    assert changed == {row for row in before if row.startswith("rms_norm.")}
    assert {before[row]["op"] == after[row]["op"] for row in changed} == {True}
    if plan == "full":
        checkout.git("checkout", "--quiet", "--", KERNEL)
        Chain(checkout).go()


def test_results_are_part_of_no_digest(tmp_path: Path) -> None:
    """Evidence that made its own source stale would never come to rest."""
    root = Checkout(tmp_path / "tree").root
    before = lane_row_digests(Sources(root))
    for name in (TABLE, SUPPORT, f"{RECEIPTS}/cpu-avx2-gcc12/ops.json", "docs/walkthrough.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}", encoding="utf-8")
    assert lane_row_digests(Sources(root)) == before
    (root / "src/retrograd/table.py").write_text("", encoding="utf-8")
    after = lane_row_digests(Sources(root))
    assert {row for row in before if before[row] != after[row]} >= {"admission.cells"}


class Chain:
    """The stations in their order. Each method asserts what it must find."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout, self.root = checkout, checkout.root
        self.run = write_run(self._folder())

    def go(self) -> None:
        for station in (
            self.measured,
            self.released,
            self.edited,
            self.rebuilt,
            self.falsified,
            self.held_back,
        ):
            start = time.monotonic()
            station()
            sys.stdout.write(f"{station.__name__}: {time.monotonic() - start:.1f} s\n")

    def measured(self) -> None:
        """Before any receipt nothing is admitted; after a run of all lanes the table admits."""
        assert self.table() == 0
        assert self.train()[0] == 2
        # The lane that tries every cell judges by the table, so it comes after it.
        lanes = sorted(path.stem for path in (self.root / "lanes" / "suite").glob("[a-z]*.py"))
        for name in (*(name for name in lanes if name != "admission"), "admission"):
            if name == "admission":
                assert self.checkout.python("matrix", "reduce")[0] == 0
            code, told = self.lane(name)
            assert code == 0, told
        assert self.table() == 0
        assert self.state() == "verified"
        self.checkout.commit("receipts, the table, its pages")
        code, told = self.train()
        assert code == 0, told

    def released(self) -> None:
        """Only the signature is missing; with it, nothing holds the release back."""
        code, told = self.checkout.python("matrix", "release")
        assert code == 1
        assert ROW not in told
        assert f"{VERSION}.sig" in told
        self.sign()
        code, told = self.checkout.python("matrix", "release")
        assert code == 0, told
        assert told.splitlines()[-1].endswith("held back by 0")

    def edited(self) -> None:
        """The source alone: its receipt speaks of another one, the old library is no evidence."""
        flip(self.root)
        self.checkout.commit("flip one rounding")
        code, told = self.checkout.python("matrix", "release")
        assert code == 1
        assert f"{ROW} [" in told
        assert "stale" in told
        code, told = self.lane("ops")
        assert code == 2
        assert "the library was built from these sources" in told

    def rebuilt(self) -> None:
        """A new library is refused by the old table at once, then by the new one."""
        self.checkout.build()
        assert self.state() == "verified"
        # Of several rows in one state the first in alphabetical order is named: here one that is
        # compiled from the file, and below one of whole steps, whose receipts ran all kernels.
        self.refused("rms_norm.backward.f32.cpu", "stale")
        page = self.page()
        assert self.table() == 0
        assert self.state() == "stale"
        assert self.page() != page
        self.refused("exactness.splits", "stale")
        self.checkout.commit("the table is stale")

    def falsified(self) -> None:
        """The lane fails, and the table, the page and the product say so."""
        page = self.page()
        code, told = self.lane("ops")
        assert code == 1
        assert "ops: falsified" in told
        assert f"{ROW} (" in told
        assert self.table() == 0
        assert self.state() == "failed"
        assert self.page() != page
        assert "✗ failed" in self.page()
        self.refused(ROW, "failed")
        self.checkout.commit("the lane failed")

    def held_back(self) -> None:
        """The release names the row; the old signature and a new one change nothing of that."""
        code, told = self.checkout.python("matrix", "release")
        assert code == 1
        assert "is not the signature of" in told
        self.sign()
        code, told = self.checkout.python("matrix", "release")
        assert code == 1
        assert f"{ROW} [" in told
        assert "failed" in told
        assert ".sig" not in told

    def lane(self, name: str) -> tuple[int, str]:
        return self.checkout.python("lanes", "run", name, "-n", "2", "--out", RECEIPTS)

    def table(self) -> int:
        """Reduces and renders; the first exit status that is not 0."""
        codes = [self.checkout.python("matrix", command)[0] for command in ("reduce", "render")]
        return max(codes)

    def state(self) -> str:
        states = self._table()["kernel_rows"][ROW]["states"].values()
        return next(iter(states))["state"]

    def page(self) -> str:
        return (self.root / SUPPORT).read_text(encoding="utf-8")

    def sign(self) -> None:
        self.checkout.sign(VERSION, self._table()["digest"])
        assert self.table() == 0  # the report names the reviewer
        self.checkout.commit("signed")

    def train(self) -> tuple[int, str]:
        """One step of the smallest run, in a folder that holds no earlier one."""
        self.run = write_run(self._folder())
        return self.checkout.python(
            "retrograd", "train", str(self.run), "--set", "training.steps=1"
        )

    def refused(self, row: str, state: str) -> None:
        code, told = self.train()
        assert code == 2, told
        assert told.startswith("[admission]")
        found = re.search(rf"{re.escape(CELL)}: (\w+) on \S+ \(([\w.-]+)", told)
        assert found is not None, told
        assert found.groups() == (state, row), told
        assert not list(self.run.parent.rglob("adapter.gguf"))

    def _folder(self) -> Path:
        folder = self.root.parent / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _table(self) -> dict[str, dict[str, dict[str, dict[str, dict[str, str]]]]]:
        return json.loads((self.root / TABLE).read_bytes())
