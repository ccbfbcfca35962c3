"""Models whose files are valid and whose content is not what a converter writes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fixtures.tiny import Recipe, metadata, recipe, tensors
from retrograd.gguf import MetadataValue, TensorData, write_gguf


def hostile_model(
    folder: Path,
    *,
    base: Recipe | None = None,
    keys: Mapping[str, MetadataValue] | None = None,
    replaced: Mapping[str, np.ndarray] | None = None,
    extra: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """A tiny model with other metadata, other values of some tensors, or tensors of its own."""
    base = base or recipe(layers=1)
    stored = {t.name: t for t in tensors(base)}
    for name, values in {**(replaced or {}), **(extra or {})}.items():
        stored[name] = TensorData.f32(name, np.asarray(values, np.float32))
    path = folder / "hostile.gguf"
    write_gguf(path, metadata=metadata(base) | (keys or {}), tensors=list(stored.values()))
    return path
