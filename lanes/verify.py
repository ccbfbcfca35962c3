"""Holding a receipt against this checkout: ``python -m lanes verify RECEIPT [--rerun N]``.

Checked always: that it is canonical JSON of the schema with its own self-digest; that its parts
agree (subjects, digests, cases, counts, plan, bounds, toolchain, device); that its plan is the
committed one, its bounds those of ``lanes/tolerances.toml``, its grades those that the contracts
allow, its digests those of this checkout, its commit an ancestor of this one with this version.

``--rerun N`` runs N sampled cases again, with the seeds that the case files fix, and compares
what is observed: bits of every error where everything that computes is the same as it was
(variant, compiler, BLAS kernel, numpy, instruction sets), the recorded bound otherwise.

What needs more than the receipt and the checkout, once somebody recomputes the self-digest:

- an error, a number of elements, a counter or a status within the bounds: a rerun of that case;
- the cases of another receipt of the same digests (another class, say): a rerun, where bits
  differ;
- a device whose processor was renamed in both places, threads, memory, operating system, Python:
  a rerun on that very machine names them; elsewhere only a signature holds them;
- time, duration, command, or another commit of this history with the same digests: a signature.
"""

import os
import random
import secrets
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lanes import receipt, tolerances
from lanes.digests import RowDigests, comparator_digest, current_digests, fixture_digests
from lanes.environment import agree
from lanes.lane_rows import lane_row_digests
from lanes.plan import committed
from lanes.receipt import PARTS, Json, distrust
from lanes.registry import LaneError, Planned, get_lane
from lanes.stamp import StampError, product_stamp
from lanes.verdict import FALSIFIED, NOT_VERIFIED, VERIFIED
from retrograd.rows import declared_rows

ROOT = receipt.ROOT


def verify_file(path: Path, *, rerun: int = 0, seed: str | None = None) -> int:
    """0 it holds · 1 it holds and says something failed, or a rerun contradicts it · 2 it does not.

    Raises:
        ReceiptError: the receipt breaks a rule by itself.
    """
    if rerun < 0:
        raise LaneError("verify", "a rerun is of one case or more", rerun, "use --rerun N")
    content = receipt.read(path)
    complaints = list(foreign(content))
    folder = ROOT / receipt.COMMITTED
    wanted = folder / receipt.place(content)
    if path.resolve().is_relative_to(folder) and path.resolve() != wanted:
        complaints.append(
            f"it lies where its environment and lane put it, {receipt.place(content)}"
        )
    if complaints:
        raise distrust(str(path), complaints)
    predicate = content["predicate"]
    failed = [case for case in predicate["cases"] if case["status"] == "failed"]
    for case in failed[:10]:
        print(f"{path}: {case['row']} ({case['case']}) failed: {case['reason']}")
    local = "; local, the table ignores it" if predicate["product"]["dirty"] else ""
    print(f"{path}: {len(predicate['cases'])} cases are what was written at this source{local}")
    code = FALSIFIED if failed else VERIFIED
    return max(code, rerun_cases(content, rerun, seed)) if rerun else code


def foreign(content: Json) -> Iterator[str]:
    """Rules that a receipt breaks with respect to this checkout."""
    predicate = content["predicate"]
    run = predicate["run"]
    size = committed(run["lane"])[run["plan"]].record()
    if predicate["plan"] != size:
        yield f"its plan is the committed one, {size}: {predicate['plan']}"
    yield from foreign_cases(predicate["cases"], get_lane(run["lane"]).planned(run["plan"]))
    rows = {**current_digests(), **lane_row_digests()}
    yield from foreign_digests(predicate["digests"], rows)
    yield from foreign_judgements(predicate["cases"])
    yield from _foreign_commit(predicate["product"])


def foreign_cases(cases: Sequence[Json], planned: Sequence[Planned]) -> Iterator[str]:
    """Cases that nobody planned, or that ended in another refusal than was predicted."""
    known = {case.key: case for case in planned}
    for case in cases:
        where, wanted = f"{case['row']} ({case['case']})", known.get((case["row"], case["case"]))
        if wanted is None:
            yield f"{where} is a case of the plan"
        elif case["counters"].get("inputs", 0) != wanted.inputs:
            yield f"{where} folds {wanted.inputs} inputs: {case['counters'].get('inputs', 0)}"
        elif case["status"] == "passed" and wanted.refuse:
            yield f"{where} is refused, as predicted: it passed"
        elif case["status"] == "refused" and case["reason"] != wanted.refuse:
            yield f"{where} is refused as predicted: {case['reason']}"


def foreign_digests(block: Json, rows: Mapping[str, RowDigests]) -> Iterator[str]:
    """Digests that are not those of this checkout, each by row and part."""
    if block["comparator"] != comparator_digest():
        yield "the comparator is this checkout's"
    fixtures = fixture_digests()
    odd = sorted(
        n for n in {*fixtures, *block["fixtures"]} if fixtures.get(n) != block["fixtures"].get(n)
    )
    if odd:
        yield f"the fixtures are this checkout's: {', '.join(odd[:3])}"
    for row, parts in block["rows"].items():
        if row not in rows:
            yield f"{row} is a row of this checkout"
            continue
        here = dict(rows[row])
        other = [part for part in PARTS if parts[part] != here[part]]
        if other:
            yield f"{row} is at this checkout's digest: {', '.join(other)} differ"


def foreign_judgements(cases: Sequence[Json]) -> Iterator[str]:
    """Bounds and grades of kernel rows that are not the recorded ones."""
    table = tolerances.read()
    contracts = {row.id: row.contract for row in declared_rows()}
    for case in cases:
        row, where = case["row"], f"{case['row']} ({case['case']})"
        if row not in contracts:
            continue
        recorded = table[row].bound if row in table else None
        if case["bound"] is not None and case["bound"] != recorded:
            yield f"{where}: its bound is the recorded one, {recorded}: {case['bound']}"
        compared = case["status"] == "passed" and case["bound"] is not None
        if compared and (case["grade"] == "pinned") != (contracts[row] == "pinned"):
            yield f"{where}: its grade is one of a {contracts[row]} row: {case['grade']}"


def _foreign_commit(product: Json) -> Iterator[str]:
    commit = product["commit"]
    try:
        here = product_stamp()
    except StampError as error:
        yield f"the sources here are known: {error}"
        return
    if here.source == "file":
        if commit != here.commit:
            yield f"its commit is that of these sources, {here.commit}: {commit}"
        return
    is_shallow = (_git("rev-parse", "--is-shallow-repository") or "").strip() == "true"
    if is_shallow and _git("cat-file", "-e", commit) is None:
        print(f"commit {commit}: not checked, the history ends before it")
        return
    if _git("merge-base", "--is-ancestor", commit, "HEAD") is None:
        yield f"its commit is an ancestor of this checkout's: {commit}"
        return
    text = _git("show", f"{commit}:src/retrograd/version.py") or ""
    if f'VERSION = "{product["version"]}"' not in text:
        yield f"its version is that of its commit: {product['version']}"


def _git(*arguments: str) -> str | None:
    """What git prints; None where it refuses."""
    command = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def sample(content: Json, count: int, seed: str) -> list[Json]:
    """Cases to run again. The seed is the reader's: whoever wrote the receipt cannot know it."""
    cases: list[Json] = content["predicate"]["cases"]
    chooser = random.Random(seed)
    return chooser.sample(cases, min(count, len(cases)))


def rerun_cases(content: Json, count: int, seed: str | None = None) -> int:
    """Runs sampled cases again: 0 as recorded · 1 otherwise · 2 not all of them ended.

    A sample of n of the m cases misses a single forged one with probability 1 - n/m.

    Raises:
        RetrogradError: they cannot be run here.
    """
    from lanes.run import Request, observe

    predicate = content["predicate"]
    backend, _, variant = predicate["environment"]["class"].partition("-")
    seed = seed or secrets.token_hex(8)
    print(f"rerun: sample drawn with --sample-seed {seed}")
    chosen = {(case["row"], case["case"]): case for case in sample(content, count, seed)}
    run = predicate["run"]
    request = Request(run["lane"], plan=run["plan"], device=backend, cases=frozenset(chosen))
    with _variant(variant if backend == "cpu" else ""):
        verdicts, receipts = observe(request)
    if verdicts[run["lane"]].code == NOT_VERIFIED:
        return NOT_VERIFIED
    found = receipts[run["lane"]]["predicate"]
    same = agree(predicate["environment"], found["environment"])
    for line in _elsewhere(predicate["environment"], found["environment"]):
        print(f"rerun: {line}")
    again = {(case["row"], case["case"]): case for case in found["cases"]}
    wrong = [
        line for key, case in chosen.items() for line in differences(case, again[key], same=same)
    ]
    for line in wrong:
        print(f"rerun: {line}")
    how = "bit by bit" if same else "within the recorded bounds, on another machine or toolchain"
    print(f"rerun: {len(chosen)} cases compared {how}, {len(wrong)} contradictions")
    return FALSIFIED if wrong else VERIFIED


@contextmanager
def _variant(name: str) -> Generator[None]:
    """Runs what follows on the instruction-set variant that a receipt was written on."""
    before = os.environ.get("RETRO_CPU_ISA")
    if name:
        os.environ["RETRO_CPU_ISA"] = name
    try:
        yield
    finally:
        os.environ.pop("RETRO_CPU_ISA", None)
        if before is not None:
            os.environ["RETRO_CPU_ISA"] = before


def differences(then: Json, now: Json, *, same: bool) -> Iterator[str]:
    """What a rerun contradicts.

    Args:
        then: the case of the receipt.
        now: the same case, run again.
        same: whether equal bits are to be expected.
    """
    where = f"{then['row']} ({then['case']})"
    names = ("status", "elements", "seeds", "grade", "bound", "corpus", "counters")
    # Whoever failed once may say so in other words.
    names = names if then["status"] == "failed" else (*names, "reason")
    for name in names:
        if then[name] != now[name]:
            yield f"{where}: {name} was {then[name]!r}, is {now[name]!r}"
    if then["errors"] is None or now["errors"] is None:
        if then["errors"] != now["errors"]:
            yield f"{where}: errors are there on one side only"
        return
    for name, value in then["errors"].items():
        if same and now["errors"][name] != value:
            yield f"{where}: {name} was {value!r}, is {now['errors'][name]!r}"
    bound = then["bound"]
    if not same and bound is not None and now["errors"]["max_ulp"] > bound:
        yield f"{where}: max_ulp is beyond the bound {bound}: {now['errors']['max_ulp']!r}"


def _elsewhere(then: Json, now: Json) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        if then.get(name) != now.get(name):
            yield f"{name} was {then.get(name)!r}, here it is {now.get(name)!r}"
