"""The peer's side: transformers and PEFT in float32. Started by the measurement, not by hand."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import torch

from bench._protocol import (
    ALPHA,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    RANK,
    Setting,
    Step,
    serve,
    token_row,
)
from lanes.peers.transformers_llama import attach_lora, load_float32


class Theirs:
    """PEFT's LoRA on every linear layer, torch's AdamW, sdpa attention, no checkpointing."""

    def __init__(self, setting: Setting) -> None:
        torch.set_num_threads(setting.threads)
        peer = attach_lora(load_float32(Path(setting.model)), rank=RANK, alpha=ALPHA)
        self._model = peer.model.train()
        self._trained = [p for p in self._model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(self._trained, lr=LEARNING_RATE, weight_decay=0.0)
        self._ids = torch.tensor([token_row(setting, peer.shape.vocabulary)])

    def step(self) -> Step:
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._model(input_ids=self._ids, labels=self._ids).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._trained, MAX_GRAD_NORM)
        self._optimizer.step()
        return Step(float(loss.detach()), float(norm))

    def versions(self) -> dict[str, str]:
        names = ("torch", "transformers", "peft")
        return {name: version(name) for name in names} | {
            "instructions": torch.backends.cpu.get_cpu_capability()
        }


if __name__ == "__main__":
    serve(Theirs(Setting(**json.loads(sys.argv[1]))))
