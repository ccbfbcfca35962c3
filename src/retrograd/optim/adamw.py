"""AdamW with decoupled decay (arXiv:1711.05101). The element-wise step is native/cpu/adamw.cpp.

x = x w - lr ((m / k1) / (sqrt(v / k2) + eps)); the scalars below are float64 on the host, rounded
once.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from retrograd.config.options import OptimizerOptions
from retrograd.graph import Builder, Value
from retrograd.graph.graph import Role

SETTINGS = ("lr", "b1", "b2", "c1", "c2", "k1", "k2", "eps", "w")


@dataclass(frozen=True)
class AdamW:
    """AdamW over f32 parameters with f32 moments ``<name>.m`` and ``<name>.v``."""

    options: OptimizerOptions

    n_settings = len(SETTINGS)
    slots = ("m", "v")

    def settings(self, step: int, rate: float, decay: float) -> npt.NDArray[np.float32]:
        """The settings buffer of step ``step`` (counted from 1)."""
        o = self.options
        return np.array(
            [
                rate,
                o.beta1,
                o.beta2,
                1.0 - o.beta1,
                1.0 - o.beta2,
                1.0 - o.beta1**step,
                1.0 - o.beta2**step,
                o.eps,
                1.0 - rate * decay,
            ],
            np.float64,
        ).astype(np.float32)

    def emit(
        self, builder: Builder, x: Value, gradient: Value, settings: Value, clip: Value
    ) -> None:
        """Adds the step of one parameter."""
        state = {
            slot: builder.add_value(f"{x.name}.{slot}", x.shape, "f32", Role.STATE)
            for slot in self.slots
        }
        inputs = {"g": gradient, "settings": settings, "clip": clip}
        builder.emit(
            "adamw", inputs, direction="step", into={"x": x, **state}, label=f"{x.name}.step"
        )
