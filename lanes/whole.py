"""Distances of whole steps.

What the product's loss and gradients lose against the float64 executor, and by splitting.

One step is epsilon of float32 times the largest element of the wanted tensor. Every element is
compared.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lanes.ceilings import ceiling
from lanes.comparator import distances
from lanes.observation import Tally, gap
from lanes.tiny_model import (
    VARIANTS,
    Model,
    Rows,
    load,
    make_step,
    open_trainer,
    oracle_loss_and_gradients,
    write_model,
)
from retrograd.graph import Graph, Phase

Steps = NDArray[np.float64]
RAGGED = (7, 3, 12, 5, 2, 9, 4, 11)
SPLITS = (1, 2, 4, 8)  # rows of a micro-batch; 8, 4, 2, 1 of them make a step
Measured = tuple[Steps, float]


def subjects() -> Mapping[str, Callable[[Path, int], Measured]]:
    """What is measured, by name.

    Distances and derived ceiling of one seed, with a folder for model files.
    """
    found: dict[str, Callable[[Path, int], Measured]] = {}
    for name in VARIANTS:
        found[f"whole.loss.{name}"] = lambda folder, seed, name=name: model_loss(
            load(name, folder, seed=seed)
        )
        found[f"whole.gradients.{name}"] = lambda folder, seed, name=name: model_gradients(
            load(name, folder, seed=seed)
        )
    found["whole.split.loss"] = lambda folder, seed: _split(folder, seed)[0]
    found["whole.split.gradients"] = lambda folder, seed: _split(folder, seed)[1]
    return found


def model_loss(model: Model) -> Measured:
    """The product's loss against the oracle executor's."""
    got, _ = model.trainer.loss_and_gradients(model.step.rows, model.step.labels)
    want, _ = oracle_loss_and_gradients(model)
    return relative(np.array([got], np.float32), np.array([want])), step_ceiling(model.graph)


def model_gradients(model: Model) -> Measured:
    """Every element of every gradient against the oracle executor's."""
    _, got = model.trainer.loss_and_gradients(model.step.rows, model.step.labels)
    _, want = oracle_loss_and_gradients(model)
    if set(got) != set(want):
        raise KeyError(f"gradients of {sorted(set(got) ^ set(want))} are on one side only")
    return np.concatenate([relative(got[n], want[n]) for n in sorted(want)]), step_ceiling(
        model.graph
    )


def split_gaps(folder: Path, seed: int) -> dict[int, tuple[Steps, Steps]]:
    """Loss and gradients of eight ragged rows, by rows of a micro-batch, against all at once."""
    name = next(iter(VARIANTS))
    path, step = write_model(name, folder), make_step(seed, RAGGED)
    results = {
        split: _loss_and_gradients(path, name, step.rows, step.labels, seed=seed, split=split)
        for split in SPLITS
    }
    loss, gradients = results[SPLITS[-1]]
    wide = {n: g.astype(np.float64) for n, g in gradients.items()}
    return {
        split: (
            relative(np.array([got_loss], np.float32), np.array([loss])),
            np.concatenate([relative(got[n], wide[n]) for n in sorted(wide)]),
        )
        for split, (got_loss, got) in results.items()
    }


def split_tally(folder: Path, *, seed: int, part: str) -> Tally:
    """The same as :func:`split_gaps` with all errors, of ``loss`` or ``gradients``."""
    name = next(iter(VARIANTS))
    path, step = write_model(name, folder), make_step(seed, RAGGED)
    results = {
        split: _loss_and_gradients(path, name, step.rows, step.labels, seed=seed, split=split)
        for split in SPLITS
    }
    arrays = {
        split: {"loss": np.array([loss], np.float32)} if part == "loss" else gradients
        for split, (loss, gradients) in results.items()
    }
    wide = {n: a.astype(np.float64) for n, a in arrays[SPLITS[-1]].items()}
    tally = Tally()
    for found in arrays.values():
        tally.add(
            gap(found[n], wide[n], magnitude=np.full(wide[n].shape, np.abs(wide[n]).max()))
            for n in sorted(wide)
        )
    return tally


def step_ceiling(graph: Graph) -> float:
    """First order: every node's own ceiling, carried to the result with a factor of one."""
    nodes = (*graph.phase(Phase.BEGIN), *graph.phase(Phase.MICRO))
    return sum(ceiling(node.op, node.direction, {**node.dims, **node.settings}) for node in nodes)


def relative(got: NDArray[np.float32], want: NDArray[np.float64]) -> Steps:
    """Distance of each element in steps of the tensor's largest."""
    return distances(
        got, want, magnitude=np.full(want.shape, np.abs(want).max(initial=0.0))
    ).reshape(-1)


def _loss_and_gradients(
    path: Path, name: str, rows: Rows, labels: Rows, *, seed: int, split: int
) -> tuple[float, dict[str, NDArray[np.float32]]]:
    trainer = open_trainer(path, VARIANTS[name].lora, seed=seed, micro_batch=split)
    return trainer.loss_and_gradients(rows, labels)


def _split(folder: Path, seed: int) -> tuple[Measured, Measured]:
    gaps = split_gaps(folder, seed)
    graph = load(next(iter(VARIANTS)), folder, seed=seed, lengths=RAGGED).graph
    loss = np.concatenate([pair[0] for pair in gaps.values()])
    gradients = np.concatenate([pair[1] for pair in gaps.values()])
    return (loss, step_ceiling(graph)), (gradients, step_ceiling(graph))
