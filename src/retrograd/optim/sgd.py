"""SGD with decoupled decay and optional (Nesterov) momentum; the step is native/cpu/sgd.cpp."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from retrograd.config.options import OptimizerOptions
from retrograd.graph import Builder, Value
from retrograd.graph.graph import Role

SETTINGS = ("lr", "mu", "w")


@dataclass(frozen=True)
class Sgd:
    """SGD over f32 parameters; with momentum an f32 buffer ``<name>.buf``."""

    options: OptimizerOptions

    n_settings = len(SETTINGS)

    @property
    def slots(self) -> tuple[str, ...]:
        return ("buf",) if self.options.momentum > 0 else ()

    def settings(self, step: int, rate: float, decay: float) -> npt.NDArray[np.float32]:
        """The settings buffer; the same at every step but for the rate."""
        del step
        return np.array([rate, self.options.momentum, 1.0 - rate * decay], np.float64).astype(
            np.float32
        )

    def emit(
        self, builder: Builder, x: Value, gradient: Value, settings: Value, clip: Value
    ) -> None:
        """Adds the step of one parameter."""
        state = {
            slot: builder.add_value(f"{x.name}.{slot}", x.shape, "f32", Role.STATE)
            for slot in self.slots
        }
        inputs = {"g": gradient, "settings": settings, "clip": clip}
        into = {"x": x, **state}
        nesterov = {"nesterov": int(self.options.nesterov)}
        builder.emit(
            "sgd", inputs, direction="step", settings=nesterov, into=into, label=f"{x.name}.step"
        )
