"""One training step of the real model, node by node, and the slices of it that are kept.

The adapter is fresh, so that it adds nothing: forward values are those of the model itself, and the
gradients of its second factors are those of a first step.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fixtures.real_model import fetch, pin
from lanes.captured import DATA, INDEX
from lanes.node_executor import run_nodes
from oracles.rope_tables import frequencies, tables
from retrograd import Trainer
from retrograd.config.options import LoraOptions, TrainingOptions
from retrograd.graph import Graph, Phase, Role
from retrograd.train.graphs import Kind

Stored = NDArray[np.generic]
TEXT = (
    "A kernel that has never been wrong has never been measured. Ask it for the largest number "
    "it can hold, and then for the next one."
)
LAYER = 15
TOKENS = 24  # of a step; the first KEPT of them are stored
KEPT = 20
GATED = 4  # tokens of the wide feed-forward arrays
ROWS = 64  # of a projection
VOCABULARY = 96  # rows of the head
_BLOCK = f"blk.{LAYER}"
_GRADIENT = f"{_BLOCK}.ffn_gate.weight.lora_b.grad"

# Name here: node label, field, tokens kept. Nodes of the backward pass end in `.grad`.
_FIELDS = {
    "residual": (f"{_BLOCK}.attn_norm", "x", KEPT),
    "d_normed": (f"{_BLOCK}.attn_norm.grad", "dy", KEPT),
    "q_unturned": (f"{_BLOCK}.rope_q", "x", KEPT),
    "q": (f"{_BLOCK}.attention", "q", KEPT),
    "k": (f"{_BLOCK}.attention", "k", KEPT),
    "v": (f"{_BLOCK}.attention", "v", KEPT),
    "d_o": (f"{_BLOCK}.attention.grad", "d_o", KEPT),
    "d_k": (f"{_BLOCK}.rope_k.grad", "dy", KEPT),
    "gate": (f"{_BLOCK}.swiglu", "g", GATED),
    "up": (f"{_BLOCK}.swiglu", "u", GATED),
    "d_gated": (f"{_BLOCK}.swiglu.grad", "dy", GATED),
    "hidden": ("head", "h", KEPT),
}


@dataclass(frozen=True)
class Ran:
    """A step that ran: its graph, every value by name, and the model's own numbers."""

    graph: Graph
    values: dict[str, Stored]
    ids: NDArray[np.int32]
    targets: NDArray[np.int32]
    numbers: dict[str, float]


def run_model() -> Ran:
    """Forward and backward of the first tokens of :data:`TEXT`."""
    options = TrainingOptions(micro_batch=1, threads=1, context=64)
    trainer = Trainer(fetch(), lora=LoraOptions(rank=4, alpha=8.0), training=options)
    graph = trainer.session.graph(Kind.TRAIN, TOKENS)
    tokens = np.array(trainer.tokenizer.encode(TEXT)[: TOKENS + 1], np.int32)
    if len(tokens) <= TOKENS:
        raise ValueError(f"the text has {len(tokens)} tokens, needed are {TOKENS + 1}")
    rows, config = np.arange(TOKENS, dtype=np.int32), trainer.model
    buffers: dict[str, Stored] = {
        "ids": tokens[:-1],
        "targets": tokens[1:],
        "positions": rows,
        "key_begin": np.zeros_like(rows),
        "key_end": rows + 1,
        "loss_weights": np.full(TOKENS, 1 / TOKENS, np.float32),
        **trainer.parameters(),
    }
    for value in graph.values:
        if value.role is Role.WEIGHT:
            buffers[value.name] = trainer.session.file.data(value.name)
    shape = graph.value("rope.cos").shape
    for name, table in zip(
        ("rope.cos", "rope.sin"),
        tables(shape[0], frequencies(config.n_rot, config.rope_base)),
        strict=True,
    ):
        buffers[name] = table.astype(np.float32)
    phases = (Phase.BEGIN, Phase.MICRO)
    values, _ = run_nodes(graph, trainer.session.device, buffers, phases)
    numbers = {"rope_base": config.rope_base, "eps": config.norm_eps, "n_rot": config.n_rot}
    return Ran(graph, values, tokens[:-1], tokens[1:], numbers)


def kept(ran: Ran) -> dict[str, Stored]:
    """The slices that are stored."""
    nodes = {node.label: node for phase in Phase for node in ran.graph.phase(phase)}
    found: dict[str, Stored] = {}
    for name, (label, field, tokens) in _FIELDS.items():
        value = ran.graph.values[nodes[label].inputs[field]]
        found[name] = ran.values[value.name][:tokens]
    found["norm_weight"] = ran.values[f"{_BLOCK}.attn_norm.weight"].view(np.float32).reshape(-1)
    found["gradient"] = ran.values[_GRADIENT]
    found["w_q4_1"] = _rows(ran.values[f"{_BLOCK}.attn_q.weight"], 576, np.arange(ROWS))
    ids, targets = ran.ids[:KEPT], ran.targets[:KEPT]
    used = np.unique(np.concatenate([ids, targets]))
    more = np.setdiff1d(np.arange(0, 49152, 384), used)[: VOCABULARY - len(used)]
    vocabulary = np.sort(np.concatenate([used, more]))
    found["w_q8_0"] = _rows(ran.values["token_embd.weight"], 49152, vocabulary)
    for name, asked in (("ids", ids), ("targets", targets)):
        found[name] = np.searchsorted(vocabulary, asked).astype(np.int32)
    return found


def write(arrays: dict[str, Stored], numbers: dict[str, float], folder: Path) -> str:
    """Writes index and data; returns the digest of the data."""
    data, entries = bytearray(), dict[str, object]()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"))
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"'{name}' is not finite")
        entries[name] = {
            "dtype": array.dtype.str,
            "offset": len(data),
            "shape": list(array.shape),
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        }
        data += array.tobytes() + bytes(-array.nbytes % 64)
    digest = hashlib.sha256(data).hexdigest()
    index = {
        "about": f"layer {LAYER}, first step of a fresh adapter, by `python -m lanes.captured`",
        "arrays": entries,
        "model": {"file": pin().file, "sha256": pin().sha256},
        "numbers": numbers,
        "sha256": digest,
        "text": TEXT,
    }
    (folder / DATA).write_bytes(data)
    text = json.dumps(index, indent=1, sort_keys=True) + "\n"
    (folder / INDEX).write_text(text, encoding="utf-8")
    return digest


def _rows(stored: Stored, n_rows: int, chosen: NDArray[np.integer]) -> Stored:
    return np.ascontiguousarray(stored.reshape(-1).view(np.uint8).reshape(n_rows, -1)[chosen])
