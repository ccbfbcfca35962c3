"""Receipts and declarations made up for tests: two backends and five environments."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from matrix.canonical import Json, canonical, digest_of, row_digest
from matrix.declared import Cell, Declarations, Environment, KernelRow, Release, Topic, TopicRow
from matrix.files import read_current
from matrix.findings import Current
from matrix.receipts import PREDICATE, STATEMENT

COMMIT = "ab" * 20
PARTS = ("cases", "kernel", "op", "oracle")
BACKENDS = ("cpu", "cuda", "vulkan", "metal")
REFUSAL = "[optimizer] muon is not built; got muon; use adamw"


ROOT = Path(__file__).resolve().parent.parent
DECLARED = ("matrix", "lanes/plans", "reports/templates")
DECLARED_FILES = (
    "lanes/tolerances.toml",
    "src/retrograd/rows.toml",
    "src/retrograd/version.py",
)


def copy_declarations(target: Path) -> Path:
    """Copies this checkout's declarations and templates, without its receipts and its table."""
    for folder in DECLARED:
        if (ROOT / folder).exists():
            shutil.copytree(ROOT / folder, target / folder)
    for name in DECLARED_FILES:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    return target


@cache
def digests_here() -> str:
    """What this checkout's digests are, as ``--digests`` takes them; asked for once."""
    now = read_current(None, ROOT)
    every = {row: {**now.parts[row], "row": digest} for row, digest in now.digests.items()}
    return json.dumps(every)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


COMPARATOR = sha("comparator")


def parts_of(row: str, *, edited: str = "") -> dict[str, str]:
    """Digests of a row's parts; one part is that of another source when it is named as edited."""
    return {part: sha(f"{row} {part}{' edited' * (part == edited)}") for part in PARTS}


@dataclass(frozen=True)
class Made:
    """What a made-up receipt says.

    Attributes:
        rows: row ids.
        failing, refusing: those of them with a failed case, or only refused ones.
        edited: those whose kernel had another source.
        worst, bound: figures of every case.
    """

    lane: str = "ops"
    env_class: str = "cpu-avx2"
    toolchain: str = "gcc12"
    rows: Sequence[str] = ("add.forward.f32.cpu",)
    failing: Sequence[str] = ()
    refusing: Mapping[str, str] = field(default_factory=dict[str, str])
    edited: Sequence[str] = ()
    corpora: Sequence[str] = ("gaussian", "lattice")
    worst: float = 1.5
    bound: float | None = 2.0
    plan: str = "full"
    dirty: bool = False
    commit: str = COMMIT
    device: str = "Test Processor"

    @property
    def path(self) -> str:
        return f"{self.env_class}-{self.toolchain}/{self.lane}.json"


def statement(made: Made) -> Json:
    """The statement, with its self-digest."""
    parts = {row: parts_of(row, edited="kernel" * (row in made.edited)) for row in made.rows}
    cases = [_case(made, row, corpus) for row in sorted(made.rows) for corpus in made.corpora]
    count = {"rows": len(made.rows), "cases": len(cases)}
    predicate: Json = {
        "schema": 1,
        "product": {"version": "0.1.0", "commit": made.commit, "dirty": made.dirty, "stamp": "git"},
        "run": {
            "lane": made.lane,
            "command": f"python -m lanes run {made.lane}",
            "seed": 0,
            "started": "2026-11-29T12:00:00Z",
            "duration_s": 1.5,
            "plan": made.plan,
            "shard": [1, 1],
            "rows": "*",
        },
        "environment": _environment(made),
        "plan": {**count, "sha256": digest_of([[c["row"], c["case"], 0] for c in cases])},
        "executed": count,
        "digests": {"rows": parts, "comparator": COMPARATOR, "fixtures": {}},
        "cases": cases,
    }
    subject = [
        {"name": row, "digest": {"sha256": row_digest(row, parts[row], COMPARATOR)}}
        for row in sorted(made.rows)
    ]
    return sealed(
        {
            "_type": STATEMENT,
            "subject": subject,
            "predicateType": PREDICATE,
            "predicate": predicate,
        }
    )


def _environment(made: Made) -> Json:
    compiler = made.toolchain.rstrip("0123456789")
    return {
        "class": made.env_class,
        "toolchain": made.toolchain,
        "backend": made.env_class.partition("-")[0],
        "device": made.device,
        "cpu": {"model": made.device, "features": ["avx2"]},
        "threads": 2,
        "memory_bytes": 2**33,
        "compiler": {"id": compiler, "version": made.toolchain[len(compiler) :], "flags": "-O3"},
        "blas": "none",
        "python": "3.11.0",
        "numpy": "2.4.0",
        "os": "Linux",
        "variables": {},
    }


def _case(made: Made, row: str, corpus: str) -> Json:
    failed, refused = row in made.failing, row in made.refusing
    status = "failed" if failed else "refused" if refused else "passed"
    reason = "above its bound" if failed else made.refusing.get(row)
    return {
        "row": row,
        "case": corpus,
        "corpus": corpus,
        "seeds": [0],
        "status": status,
        "reason": reason,
        "elements": 1000,
        "errors": None if refused else _errors(made.worst),
        "bound": None if refused else made.bound,
        "grade": "pinned" if made.bound is None or refused else "bounded",
        "counters": {},
    }


def _errors(worst: float) -> Json:
    names = ("max_abs", "p999_abs", "max_rel", "p999_rel", "p999_ulp")
    return {**dict.fromkeys(names, 0.0), "max_ulp": worst, "bits_differing": 0}


def sealed(content: Json) -> Json:
    """The statement with the self-digest that belongs to its present content."""
    predicate = {k: v for k, v in content["predicate"].items() if k != "self_digest"}
    digest = digest_of({**content, "predicate": predicate})
    return {**content, "predicate": {**predicate, "self_digest": digest}}


def receipt(made: Made) -> bytes:
    return canonical(statement(made))


def receipts(*made: Made) -> dict[str, bytes]:
    return {m.path: receipt(m) for m in made}


OPS = ("add.forward.f32.cpu", "matmul.forward.f32.cpu")
CUDA = "add.forward.f32.cuda"
STEP = "model.step.tiny"
MUON = "admission.optimizers.muon.cpu"


def environment(env_class: str, toolchain: str, *lanes: str) -> Environment:
    backend = env_class.partition("-")[0]
    command = "python -m lanes run {lane} --plan {plan}"
    return Environment(
        env_class, toolchain, backend, lanes, "full", "a machine", command, manual=False
    )


ENVIRONMENTS = (
    environment("cpu-avx2", "gcc12", "ops", "model", "admission"),
    environment("cpu-avx2", "clang16", "ops"),
    environment("cpu-portable", "gcc12", "ops", "model"),
    environment("cuda-sm80", "nvcc13", "ops"),
    environment("cuda-sm90", "nvcc13"),
)


def _row(topic: str, name: str, notes: tuple[str, ...] = (), **built: Cell) -> TopicRow:
    cells = {b: Cell(f"{topic}.{name}.{b}", b, {}, None, False, ()) for b in BACKENDS}  # noqa: FBT003
    for backend, cell in built.items():
        cells[backend] = Cell(
            cells[backend].id, backend, cell.needs, cell.refuse, cell.manual, notes
        )
    return TopicRow(name, name.upper(), {}, cells)


def cell(refuse: str | None = None, *, manual: bool = False, **needs: tuple[str, ...]) -> Cell:
    return Cell("", "", needs, refuse, manual, ())


def declarations(
    environments: Sequence[Environment] = ENVIRONMENTS, bounds: Mapping[str, float] | None = None
) -> Declarations:
    """The made-up project: three kernel rows, a model lane, and one declared refusal."""
    rows = (*(KernelRow(r, "cpu", "bounded") for r in OPS), KernelRow(CUDA, "cuda", "bounded"))
    training = Topic(
        "training",
        "Training",
        "capabilities",
        (
            _row(
                "training",
                "lora",
                ("Condition one.", "At {worst} of {bound} on {device}."),
                cpu=cell(ops=OPS, model=(STEP,)),
                cuda=cell(ops=(CUDA,), manual=True),
            ),
            _row("training", "ppo"),
        ),
    )
    optimizers = Topic(
        "optimizers",
        "Optimizers",
        "capabilities",
        (_row("optimizers", "muon", cpu=cell(REFUSAL, admission=(MUON,))),),
    )
    storage = Topic("storage", "Storage", "base_dtype", (_row("base_dtype", "base.f32.adamw"),))
    return Declarations(
        version="0.1.0",
        kernel_rows={row.id: row for row in rows},
        plans={},
        coverage={
            "ops": frozenset({*OPS, CUDA}),
            "model": frozenset({STEP}),
            "admission": frozenset({MUON}),
        },
        refusals={MUON: REFUSAL},
        bounds=bounds if bounds is not None else dict.fromkeys((*OPS, CUDA), 2.0),
        environments=tuple(environments),
        topics=(training, optimizers, storage),
        release=Release(("cpu",), ("Everything holds.",), {"cpu": ("avx2",), "cuda": ()}),
    )


def current(*, edited: str = "", comparator: str = COMPARATOR, but: str = "") -> Current:
    """Digests of the made-up checkout, in which one row's kernel may have been edited."""
    names = [name for name in (*OPS, CUDA, STEP, MUON) if name != but]
    parts = {name: parts_of(name, edited="kernel" * (name == edited)) for name in names}
    return Current({name: row_digest(name, parts[name], comparator) for name in names}, parts)


# Everything that the environments promise, all of it good.
COMPLETE = (
    Made(rows=OPS),
    Made(rows=OPS, toolchain="clang16"),
    Made(rows=OPS, env_class="cpu-portable"),
    Made(lane="model", rows=(STEP,)),
    Made(lane="model", rows=(STEP,), env_class="cpu-portable"),
    Made(lane="admission", rows=(MUON,), refusing={MUON: REFUSAL}),
    Made(rows=(CUDA,), env_class="cuda-sm80", toolchain="nvcc13"),
)
