"""Logits, loss and LoRA gradients against transformers and PEFT in float64."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lanes.suite.interop.conftest import ALPHA, RANK
from lanes.suite.interop.ledger import Ledger
from lanes.suite.interop.rows import PASSAGES, TokenRows, draw_rows
from lanes.whole import step_ceiling
from retrograd import Trainer
from retrograd.train.batch import bucket
from retrograd.train.graphs import Kind

if TYPE_CHECKING:
    from lanes.peers.transformers_llama import Peer


def rows_of(seed: int, trainer: Trainer) -> TokenRows:
    second = seed + 1 + seed // len(PASSAGES)
    text = f"{PASSAGES[seed % len(PASSAGES)]} {PASSAGES[second % len(PASSAGES)]}"
    return draw_rows(seed, trainer.tokenize(text), vocabulary=trainer.model.vocabulary)


def ceiling_of(trainer: Trainer, kind: Kind, n_tokens: int) -> float:
    return step_ceiling(trainer.session.program(kind, bucket(n_tokens)).graph)


def test_logits(seed: int, base: Trainer, peer: "Peer", ledger: Ledger) -> None:
    for row, source in zip(rows_of(seed, base).ids, ("text", "drawn"), strict=True):
        ids = np.array([row], np.int64)
        ceiling = ceiling_of(base, Kind.LOGITS, len(row))
        ledger.within(
            f"interop.logits.{source}", base.logits(ids), peer.base_logits(ids), ceiling=ceiling
        )


def test_loss_and_gradients(
    seed: int, adapted: Trainer, peer: "Peer", model: Path, tmp_path: Path, ledger: Ledger
) -> None:
    from lanes.peers.adapter_gguf import draw_factors, write_adapter
    from lanes.peers.gguf_weights import to_peer_rows
    from lanes.peers.transformers_llama import loss_and_gradients, set_factors

    factors = draw_factors(model, rank=RANK, seed=seed)
    write_adapter(tmp_path / "drawn.gguf", factors, alpha=ALPHA)
    set_factors(peer, factors)
    adapted.load_adapter(tmp_path / "drawn.gguf")
    rows = rows_of(seed, adapted)
    loss, gradients = adapted.loss_and_gradients(rows.ids, rows.labels)
    want_loss, want = loss_and_gradients(peer, *rows.padded())

    assert set(gradients) == set(want) == set(factors)
    assert all(np.abs(gradient).max() > 0 for gradient in want.values())
    ceiling = ceiling_of(adapted, Kind.TRAIN, sum(len(row) for row in rows.ids))
    ledger.within(
        "interop.loss", np.array([loss], np.float32), np.array([want_loss]), ceiling=ceiling
    )
    pairs = [(gradients[name], want[name]) for name in sorted(want)]
    ledger.within_each("interop.gradients", pairs, ceiling=ceiling)
    name = "blk.0.attn_q.weight.lora_b"
    unpermuted = to_peer_rows(gradients[name], adapted.model.heads)
    ledger.beyond("interop.gradients", unpermuted, want[name])
