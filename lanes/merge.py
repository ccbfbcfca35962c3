"""Joining the receipts of all shards of a plan into the receipt that one run would have left.

0 when the union is the plan and everything in it passed or was refused as predicted, 1 when
something in it failed, 2 when the receipts do not belong together or do not make up the plan.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lanes import plan, receipt
from lanes.receipt import Json, distrust
from lanes.verdict import FALSIFIED, VERIFIED, WORDS

# What shards of one run share; everything else of a predicate is added up.
_SHARED = ("product", "environment", "plan")
_RUN = ("lane", "seed", "plan", "rows")


def merge_files(paths: Sequence[Path], *, out: Path | None = None) -> int:
    """Merges the receipts of these files and writes the result; the exit code.

    Raises:
        ReceiptError: a receipt is broken, or together they are not the plan.
    """
    merged = merge({str(path): receipt.read(path) for path in paths})
    if len(paths) != len({path.resolve() for path in paths}):
        raise distrust("merge", ["each receipt is given once"])
    folder, why = receipt.home(merged)
    target = (out or receipt.ROOT / folder) / receipt.place(merged)
    receipt.write(merged, target)
    failed = [case for case in merged["predicate"]["cases"] if case["status"] == "failed"]
    for case in failed[:10]:
        print(f"{case['row']} ({case['case']}) failed: {case['reason']}")
    code = FALSIFIED if failed else VERIFIED
    amount = merged["predicate"]["executed"]
    print(f"{merged['predicate']['run']['lane']}: {WORDS[code]}: {amount['cases']} cases ({why})")
    return code


def merge(receipts: Mapping[str, Json]) -> Json:
    """The receipt of the whole plan.

    Args:
        receipts: by the name to call them by; each keeps the rules of a receipt.

    Raises:
        ReceiptError: they do not belong together or do not make up the committed plan.
    """
    complaints = list(_complaints(receipts))
    if complaints:
        raise distrust("merge", complaints)
    predicates = [found["predicate"] for found in receipts.values()]
    predicates.sort(key=lambda predicate: predicate["run"]["shard"])
    cases = sorted(_cases(predicates), key=lambda case: (case["row"], case["case"]))
    first = predicates[0]
    run = {
        **{name: first["run"][name] for name in _RUN},
        "command": f"{_command(first['run'])}, in {len(predicates)} shards",
        "started": min(predicate["run"]["started"] for predicate in predicates),
        "duration_s": round(sum(predicate["run"]["duration_s"] for predicate in predicates), 3),
        "shard": [1, 1],
        "merged": [predicate["self_digest"] for predicate in predicates],
    }
    subject = {e["name"]: e for found in receipts.values() for e in found["subject"]}
    rows = {row: parts for predicate in predicates for row, parts in _rows(predicate).items()}
    merged = receipt.statement(
        [subject[name] for name in sorted(subject)],
        {
            "schema": 1,
            **{name: first[name] for name in _SHARED},
            "run": run,
            "executed": {"rows": len({case["row"] for case in cases}), "cases": len(cases)},
            "digests": {**first["digests"], "rows": rows},
            "cases": cases,
        },
    )
    complaints = list(receipt.broken_rules(merged))
    if complaints:
        raise distrust("merge", complaints)
    return merged


def _command(run: Mapping[str, Any]) -> str:
    return f"python -m lanes run {run['lane']} --plan {run['plan']}"


def _rows(predicate: Json) -> dict[str, Json]:
    return predicate["digests"]["rows"]


def _cases(predicates: Sequence[Json]) -> Iterator[Json]:
    for predicate in predicates:
        yield from predicate["cases"]


def _complaints(receipts: Mapping[str, Json]) -> Iterator[str]:
    """Why receipts do not make up a plan."""
    (name, first), *others = [(name, found["predicate"]) for name, found in receipts.items()]
    for other, predicate in others:
        yield from _differences(name, first, other, predicate)
    seen: dict[tuple[str, str], str] = {}
    for other, found in receipts.items():
        for case in found["predicate"]["cases"]:
            key = (case["row"], case["case"])
            if key in seen:
                yield f"no case occurs twice: {key[0]} ({key[1]}) in {seen[key]} and {other}"
                return
            seen[key] = other
    shards = sorted(tuple(found["predicate"]["run"]["shard"]) for found in receipts.values())
    of = first["run"]["shard"][1]
    if shards != [(i + 1, of) for i in range(of)]:
        yield f"the shards are 1/{of} to {of}/{of}: {', '.join(f'{i}/{n}' for i, n in shards)}"
    predicates = [found["predicate"] for found in receipts.values()]
    union = plan.size_of_ended(_cases(predicates)).record()
    if union != first["plan"]:
        yield f"the union is the plan, {first['plan']}: {union}"
    committed = plan.committed(first["run"]["lane"])[first["run"]["plan"]].record()
    if first["plan"] != committed:
        yield f"the plan is the committed one, {committed}: {first['plan']}"


def _differences(name: str, first: Json, other: str, predicate: Json) -> Iterator[str]:
    for part in _SHARED:
        keys = sorted(k for k in first[part] if first[part][k] != predicate[part].get(k))
        if keys or first[part].keys() != predicate[part].keys():
            yield f"{name} and {other} have one {part}: {', '.join(keys) or 'other keys'} differ"
    keys = [key for key in _RUN if first["run"][key] != predicate["run"][key]]
    if keys:
        yield f"{name} and {other} are of one run: {', '.join(keys)} differ"
    for part in ("comparator", "fixtures"):
        if first["digests"][part] != predicate["digests"][part]:
            yield f"{name} and {other} have one digest of {part}"
    for row, parts in _rows(predicate).items():
        if _rows(first).get(row, parts) != parts:
            yield f"{name} and {other} have one digest of {row}"
