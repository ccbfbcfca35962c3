"""Array types of the oracles."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Index = NDArray[np.int32]
Words = NDArray[np.uint32]

# What one float32 rounding can lose when a result falls below the normal range, as a multiple of
# the unit 2^-23 that magnitudes are measured in: 2^-149 / 2^-23.
UNDERFLOW = 2.0**-126
