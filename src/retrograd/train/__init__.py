"""The trainer and the training loop."""

from retrograd.train.loop import RunResult as RunResult
from retrograd.train.loop import run as run
from retrograd.train.trainer import Trainer as Trainer
