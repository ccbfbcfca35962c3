"""Named samplers.

A corpus is a way to draw values; every row sees all of them, Gaussian noise last.

- ``lattice``: small whole numbers, so that every partial sum is representable: equality holds in
  any order.
- ``ladder``: both signs, magnitudes over many powers of two, subnormals included where the op's
  domain allows.
- ``structured``: sizes on and beside tile edges, repeated rows, extreme index patterns; values with
  repeats and zeros.
- ``gaussian``: noise.
- ``regression``: single named inputs with their right answers (``lanes/cases/regressions.py``).
"""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CORPORA = ("lattice", "ladder", "structured", "gaussian")

# Where kernels split their work; sizes straddle these.
EDGES = {
    "row_block": 64,
    "query_tile": 64,
    "key_tile": 128,
    "vocabulary_tile": 512,
    "head_rows": 512,
    "sum_chunk": 4096,
    "element_chunk": 16384,
}


@dataclass(frozen=True)
class Draw:
    """One corpus with its generator.

    Attributes:
        low, high: exponents of two between which a ladder draws, where the op's domain is narrower
            than float32.
    """

    corpus: str
    rng: np.random.Generator
    low: int = -40
    high: int = 20

    def array(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Values of the corpus in float32."""
        match self.corpus:
            case "lattice":
                return self.rng.integers(-3, 4, shape).astype(np.float32)
            case "ladder":
                return self._ladder(shape)
            case "structured":
                return self._repeating(shape)
            case "gaussian":
                return self.rng.standard_normal(shape, dtype=np.float32)
            case _:
                raise ValueError(f"unknown corpus '{self.corpus}'; known: {', '.join(CORPORA)}")

    def positive(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Sizes of the corpus, none of them zero."""
        return np.abs(self.array(shape)) + np.float32(
            2.0**self.low if self.corpus == "ladder" else 1
        )

    def indices(self, n: int, limit: int) -> NDArray[np.int32]:
        """Numbers below ``limit``.

        Random, or in the structured corpus the same few again and again, ends included.
        """
        if self.corpus != "structured" or limit < 1:
            return self.rng.integers(0, max(limit, 1), n).astype(np.int32)
        few = np.array([limit - 1, 0, limit - 1, limit // 2], dtype=np.int32)
        return np.resize(few, n)

    def scales(self, n: int) -> NDArray[np.float16]:
        """Block scales of a storage format.

        Plus or minus 1 on the lattice, finite halves otherwise.
        """
        signs = np.where(self.rng.random(n) < 0.5, -1.0, 1.0)
        if self.corpus == "lattice":
            return signs.astype(np.float16)
        spread = (-14.0, 3.0) if self.corpus == "ladder" else (-7.0, -3.0)
        return (signs * 2.0 ** self.rng.uniform(*spread, n)).astype(np.float16)

    def _ladder(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        signs = np.where(self.rng.random(shape) < 0.5, -1.0, 1.0)
        with np.errstate(under="ignore"):
            return (signs * 2.0 ** self.rng.uniform(self.low, self.high, shape)).astype(np.float32)

    def _repeating(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Noise with repeated rows, a row of zeros and one element far larger than the rest."""
        values = self.rng.standard_normal(shape, dtype=np.float32)
        if len(shape) == 2 and shape[0] > 2:
            values[1] = values[0]
            values[2] = 0
        if values.size:
            values.reshape(-1)[self.rng.integers(values.size)] = np.float32(100)
        return values


def draw(corpus: str, *key: object, seed: int, low: int = -40, high: int = 20) -> Draw:
    """A corpus whose draws depend on its name, the key and the seed alone."""
    words = [zlib.crc32(repr(part).encode()) for part in (corpus, *key)]
    return Draw(corpus, np.random.default_rng([seed, *words]), low, high)
