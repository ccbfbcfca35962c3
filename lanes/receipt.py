"""Receipts: what a run leaves behind, an in-toto Statement v1 in canonical JSON.

One file per environment class with toolchain and lane, ``reports/receipts/<class>-<toolchain>/
<lane>.json``. ``lanes/receipt.schema.json`` is its schema, applied when it is written and when it
is read; the self-digest is the SHA-256 over the canonical JSON of everything but itself. A
receipt from a tree that is not that of its commit says ``dirty`` and stays local.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from lanes.digests import RowDigests, row_digest
from lanes.registry import LaneError
from native.digests import canonical

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = Path("reports/receipts")
LOCAL = Path("build/receipts")
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "tag:retrograd,2026:receipt/v1"
SCHEMA = Path(__file__).with_name("receipt.schema.json")
PARTS = ("kernel", "op", "oracle", "cases")
Json = dict[str, Any]


class ReceiptError(LaneError):
    """A receipt that cannot be trusted."""


def distrust(path: str, complaints: Sequence[str]) -> ReceiptError:
    """The error that names each rule which a receipt breaks."""
    rule = "a receipt is what a run wrote"
    return ReceiptError(path, rule, "; ".join(complaints), "run the lane again")


def digests_block(
    rows: Mapping[str, RowDigests], comparator: str, fixtures: Mapping[str, str], ids: Iterable[str]
) -> tuple[Json, list[Json]]:
    """``digests`` and ``subject`` for these rows."""
    wanted = sorted(set(ids))
    parts = {row: {part: rows[row][part] for part in PARTS} for row in wanted}
    subject = [
        {"name": row, "digest": {"sha256": row_digest(row, parts[row], comparator)}}
        for row in wanted
    ]
    block = {"rows": parts, "comparator": comparator, "fixtures": dict(fixtures)}
    return block, subject


def statement(subject: Sequence[Json], predicate: Mapping[str, Any]) -> Json:
    """The whole statement with its self-digest."""
    return sealed(
        {
            "_type": STATEMENT,
            "subject": list(subject),
            "predicateType": PREDICATE,
            "predicate": dict(predicate),
        }
    )


def self_digest(content: Json) -> str:
    """SHA-256 of the canonical JSON of everything but the self-digest."""
    rest = {key: value for key, value in content["predicate"].items() if key != "self_digest"}
    return hashlib.sha256(canonical({**content, "predicate": rest})).hexdigest()


def sealed(content: Json) -> Json:
    """The statement with the self-digest of its present content."""
    predicate = {**content["predicate"], "self_digest": self_digest(content)}
    return {**content, "predicate": predicate}


def encoded(content: Json) -> bytes:
    """The bytes of a receipt file: canonical JSON and a line end."""
    return canonical(content) + b"\n"


def place(content: Json) -> Path:
    """Where a receipt lies below the folder of receipts."""
    environment, run = content["predicate"]["environment"], content["predicate"]["run"]
    return Path(f"{environment['class']}-{environment['toolchain']}") / f"{run['lane']}.json"


def is_whole(content: Json) -> bool:
    """Whether the run was meant to observe its whole plan: no shard, no filter of rows."""
    run = content["predicate"]["run"]
    return run["shard"] == [1, 1] and run["rows"] == "*"


def home(content: Json) -> tuple[Path, str]:
    """Folder that a receipt is written under, and why it is that one."""
    product, run = content["predicate"]["product"], content["predicate"]["run"]
    if product["dirty"]:
        return LOCAL, "local: the tree is not that of its commit"
    if not is_whole(content):
        return LOCAL, "local: a part of the plan"
    if run["plan"] != "full":
        return LOCAL, "local: a sample of the plan"
    return COMMITTED, "to be committed"


def write(content: Json, path: Path) -> Path:
    """Writes a receipt that keeps every rule.

    Raises:
        ReceiptError: it breaks one.
    """
    complaints = list(broken_rules(content))
    if complaints:
        raise distrust(str(path), complaints)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(content))
    return path


def read(path: Path) -> Json:
    """Reads a receipt that keeps every rule which needs nothing but the receipt.

    Raises:
        ReceiptError: there is none, or it breaks a rule; each broken rule is named.
    """
    try:
        found = path.read_bytes()
        content: object = json.loads(found, object_pairs_hook=_once, parse_constant=_no_constant)
    except (OSError, ValueError) as error:
        raise distrust(str(path), [f"it can be read as JSON: {error}"]) from error
    complaints = list(broken_rules(content))
    if not complaints and encoded(cast(Json, content)) != found:
        complaints.append("it is canonical JSON: keys, spaces or numbers are written otherwise")
    if complaints:
        raise distrust(str(path), complaints)
    return cast(Json, content)


def _once(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def broken_rules(content: object) -> Iterator[str]:
    """Rules that a receipt breaks, by itself: schema, self-digest, agreement of its parts."""
    found = list(_schema_faults(content))
    yield from found
    if found:
        return
    receipt = cast(Json, content)
    actual = self_digest(receipt)
    if receipt["predicate"]["self_digest"] != actual:
        yield f"self_digest is that of the content, {actual}"
    yield from _disagreements(receipt)
    yield from _contradictions(receipt)


@cache
def _validator() -> Any:  # noqa: ANN401 — the library publishes no types
    from jsonschema import Draft202012Validator

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _schema_faults(content: object) -> Iterator[str]:
    for number, error in enumerate(_validator().iter_errors(content)):
        if number == 5:
            return
        yield f"schema: {error.json_path}: {str(error.message)[:160]}"


def _disagreements(receipt: Json) -> Iterator[str]:
    predicate: Json = receipt["predicate"]
    names = [entry["name"] for entry in receipt["subject"]]
    keys = [(case["row"], case["case"]) for case in predicate["cases"]]
    for what, found in (("subject", names), ("cases", keys)):
        odd = [b for a, b in pairwise(found) if not a < b]
        if odd:
            yield f"{what} is sorted and each entry occurs once: {odd[0]}"
    rows = {row for row, _ in keys}
    for what, found in (
        ("subject", set(names)),
        ("digests.rows", set(predicate["digests"]["rows"])),
    ):
        if found != rows:
            yield f"{what} names the rows of the cases: {', '.join(sorted(found ^ rows)[:3])}"
    executed = {"rows": len(rows), "cases": len(keys)}
    if predicate["executed"] != executed:
        yield f"executed counts the cases, {executed}: {predicate['executed']}"
    yield from _digest_faults(receipt)
    yield from _plan_faults(predicate)
    yield from _environment_faults(predicate["environment"])


def _digest_faults(receipt: Json) -> Iterator[str]:
    predicate: Json = receipt["predicate"]
    comparator = predicate["digests"]["comparator"]
    for entry in receipt["subject"]:
        parts = predicate["digests"]["rows"].get(entry["name"])
        if parts and entry["digest"]["sha256"] != row_digest(entry["name"], parts, comparator):
            yield f"the digest of {entry['name']} is that of its parts"


def _environment_faults(environment: Json) -> Iterator[str]:
    if environment["class"].partition("-")[0] != environment["backend"]:
        yield f"class {environment['class']} is one of backend {environment['backend']}"
    compiler = environment["compiler"]
    toolchain = f"{compiler['id']}{compiler['version'].partition('.')[0]}"
    if environment["toolchain"] != toolchain:
        yield f"the toolchain is that of the compiler, {toolchain}: {environment['toolchain']}"
    model = environment["cpu"]["model"]
    if environment["backend"] == "cpu" and environment["device"] != model:
        yield f"the device is the processor, {model}: {environment['device']}"


def _plan_faults(predicate: Json) -> Iterator[str]:
    from lanes.plan import size_of_ended

    part, of = predicate["run"]["shard"]
    if part > of:
        yield f"a shard is one of its number: {part}/{of}"
    whole = of == 1 and predicate["run"]["rows"] == "*"
    if whole and size_of_ended(predicate["cases"]).record() != predicate["plan"]:
        yield "plan is that of the cases which ended"
    if len(predicate["cases"]) > predicate["plan"]["cases"]:
        yield f"no more cases ended than were planned: {len(predicate['cases'])}"


def _contradictions(receipt: Json) -> Iterator[str]:
    for case in receipt["predicate"]["cases"]:
        where = f"{case['row']} ({case['case']})"
        errors: Json = case["errors"] or {}
        for kind in ("abs", "rel", "ulp"):
            if errors and errors[f"p999_{kind}"] > errors[f"max_{kind}"]:
                yield f"{where}: p999_{kind} is no larger than max_{kind}"
        if case["status"] != "passed":
            continue
        if case["bound"] is not None and errors["max_ulp"] > case["bound"]:
            yield f"{where}: what passed lies within its bound: {errors['max_ulp']}"
        exact = case["grade"] in {"lattice", "pinned"}
        if exact and errors["bits_differing"]:
            yield f"{where}: what passed as {case['grade']} is equal: {errors['bits_differing']}"
