"""Fine-tunes GGUF language models with its own native kernels and writes GGUF back.

    from retrograd import LoraOptions, Trainer

    trainer = Trainer("model.gguf", lora=LoraOptions(rank=8))

Names are imported when they are first used, so that ``import retrograd`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from retrograd import version as _version

if TYPE_CHECKING:
    from retrograd import errors as errors
    from retrograd.config.options import LoraOptions as LoraOptions
    from retrograd.config.options import OptimizerOptions as OptimizerOptions
    from retrograd.config.options import TrainingOptions as TrainingOptions
    from retrograd.train.trainer import Trainer as Trainer

__version__ = _version.VERSION

_HOMES = {
    "LoraOptions": "retrograd.config.options",
    "OptimizerOptions": "retrograd.config.options",
    "TrainingOptions": "retrograd.config.options",
    "Trainer": "retrograd.train.trainer",
}

__all__ = [
    "LoraOptions",
    "OptimizerOptions",
    "Trainer",
    "TrainingOptions",
    "__version__",
    "errors",
]


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("retrograd.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
