"""Optimizers, one file each: state layout, settings, step; schedule and clipping beside them."""

from retrograd.optim.schedule import learning_rate as learning_rate
from retrograd.optim.step import OPTIMIZERS as OPTIMIZERS
from retrograd.optim.step import Optimizer as Optimizer
from retrograd.optim.step import add_step as add_step
from retrograd.optim.step import make_optimizer as make_optimizer
