"""The trainer and the training loop."""

from retrograd.train.trainer import Trainer as Trainer
