"""Building the table and its pages from 10,000 cases, beside plainly parsing the same bytes.

``python -m bench.matrix`` prints the shortest of several rounds, each round timing both, so that
what else the machine does falls on both alike.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from matrix.canonical import row_digest
from matrix.declared import Declarations, KernelRow, Topic, TopicRow
from matrix.files import dump
from matrix.findings import Current
from matrix.reduce import reduce
from matrix.render import Release, render

ROOT = Path(__file__).resolve().parent.parent
ROWS, CORPORA, NEEDS = 1250, 4, 10
ROUNDS = 7


def main() -> None:
    """Times both and prints the ratio."""
    sys.path.insert(0, str(ROOT / "tests"))
    from made_receipts import COMPARATOR, Made, environment, parts_of, receipts

    ids = [f"op{n}.forward.f32.cpu" for n in range(ROWS)]
    parts = {row: parts_of(row) for row in ids}
    now = Current({row: row_digest(row, parts[row], COMPARATOR) for row in ids}, parts)
    corpora = tuple(f"corpus{n}" for n in range(CORPORA))
    classes = ("cpu-avx2", "cpu-portable")
    given = receipts(*(Made(rows=ids, corpora=corpora, env_class=name) for name in classes))
    declared = _declared(ids)
    declared = replace(
        declared, environments=tuple(environment(name, "gcc12", "ops") for name in classes)
    )

    def build() -> object:
        table = reduce(declared, given, now, is_ancestor=lambda _: True).table
        return dump(table), render(declared, table, Release(), ROOT / "reports" / "templates")

    def read() -> object:
        return [json.loads(content) for content in given.values()]

    rounds = [(_seconds(build), _seconds(read)) for _ in range(ROUNDS)]
    built, plain = (min(times) for times in zip(*rounds, strict=True))
    n_bytes = sum(map(len, given.values()))
    print(f"cases={len(ids) * len(classes) * CORPORA} bytes={n_bytes}")
    print(f"reduce_and_render={built:.3f}s json_parse={plain:.3f}s ratio={built / plain:.1f}")


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _declared(ids: list[str]) -> Declarations:
    """Every row, and a cell for each ten of them."""
    from made_receipts import cell, declarations

    groups = [tuple(ids[n : n + NEEDS]) for n in range(0, len(ids), NEEDS)]
    rows: list[TopicRow] = []
    for number, group in enumerate(groups):
        cells = {
            backend: replace(
                cell(**({"ops": group} if backend == "cpu" else {})),
                id=f"topic.row{number}.{backend}",
                backend=backend,
            )
            for backend in ("cpu", "cuda", "vulkan", "metal")
        }
        rows.append(TopicRow(f"row{number}", f"Row {number}", {}, cells))
    return replace(
        declarations(bounds=dict.fromkeys(ids, 2.0)),
        kernel_rows={row: KernelRow(row, "cpu", "bounded") for row in ids},
        plans={},
        coverage={"ops": frozenset(ids)},
        refusals={},
        topics=(Topic("topic", "Topic", "capabilities", tuple(rows)),),
    )


if __name__ == "__main__":
    main()
