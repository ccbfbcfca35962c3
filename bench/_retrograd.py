"""Our side: the public Trainer. Started by the measurement, not by hand."""

import json
import sys
from importlib.metadata import version

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
from retrograd import LoraOptions, OptimizerOptions, Trainer, TrainingOptions, __version__
from retrograd.text.examples import IGNORED, Example


class Ours:
    """A Trainer with an adapter on every linear layer."""

    def __init__(self, setting: Setting) -> None:
        optimizer = OptimizerOptions(
            learning_rate=LEARNING_RATE, max_grad_norm=MAX_GRAD_NORM, schedule="constant"
        )
        training = TrainingOptions(
            steps=1,
            micro_batch=1,
            context=setting.n_tokens,
            threads=setting.threads,
            optimizer=optimizer,
        )
        self._trainer = Trainer(
            setting.model, lora=LoraOptions(rank=RANK, alpha=ALPHA), training=training
        )
        ids = token_row(setting, self._trainer.model.vocabulary)
        self._rows = [Example(ids, [IGNORED, *ids[1:]])]

    def step(self) -> Step:
        report = self._trainer.train_step(self._rows)
        return Step(report.loss, report.grad_norm)

    def versions(self) -> dict[str, str]:
        device = "; ".join(self._trainer.summary())
        return {
            "retrograd": __version__,
            "scipy-openblas32": version("scipy-openblas32"),
            "device": device,
        }


if __name__ == "__main__":
    serve(Ours(Setting(**json.loads(sys.argv[1]))))
