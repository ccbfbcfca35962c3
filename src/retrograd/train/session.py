"""A model on a device: mapped weights, adapter, compiled programs by kind and size."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from retrograd import admission
from retrograd.backends import Device, open_device
from retrograd.config.options import TARGET_ALIASES, LoraOptions, OptimizerOptions
from retrograd.errors import ConfigError, GgufError
from retrograd.families import read_config, recognise
from retrograd.families.rope_tables import rope_tables
from retrograd.families.transformer import ROPE_COS, ROPE_FACTORS, ROPE_SIN
from retrograd.gguf import open_gguf
from retrograd.graph import Adapter, Graph, Role
from retrograd.optim import make_optimizer
from retrograd.optim.step import SUMS
from retrograd.runtime import Program, Store, rows_of
from retrograd.train.adapters import target_weights
from retrograd.train.graphs import Blueprint, Kind, build_graph
from retrograd.train.preflight import SMALLEST_TOKENS, combination, step_graph

MOST_PROGRAMS = 8  # compiled sizes kept at a time
DEFAULT_CONTEXT = 512  # where the options leave it to the model
LEAST_POSITIONS = 4096  # rows of the rotary tables, where the model allows them

Float32s = npt.NDArray[np.float32]


class Session:
    """Owns the device memory of one model.

    Args:
        model_path: GGUF file.
        optimizer: what a training graph's step does.
        context: most tokens of a training row; 0 for the model's own, at most 512.
        lora: adapter that will be trained; what such a run uses is admitted first.
        device_name: backend.
        threads: CPU workers; None for RETRO_THREADS or all.

    Raises:
        AdmissionError: the table or the device refuses part of the run; nothing was allocated.
    """

    def __init__(
        self,
        model_path: str | Path,
        *,
        optimizer: OptimizerOptions,
        context: int,
        lora: LoraOptions | None = None,
        device_name: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.file = open_gguf(model_path)
        self.config = read_config(self.file, recognise(self.file))
        self.context = context or min(self.config.context, DEFAULT_CONTEXT)
        self.positions = min(self.config.context, max(self.context, LEAST_POSITIONS))
        if context > self.config.context:
            rule = "training.context is at most the model's context"
            raise ConfigError(
                "config", rule, (context, self.config.context), "lower training.context"
            )
        self.optimizer = make_optimizer(optimizer)
        self.device: Device = open_device(device_name, threads=threads)
        self.store = Store(self.device)
        self.adapters: dict[str, Adapter] = {}
        self._programs: OrderedDict[tuple[Kind, int], Program] = OrderedDict()
        self._admit(optimizer.name, lora)
        self._bind_weights()

    def graph(self, kind: Kind, tokens: int, *, cache_rows: int = 0) -> Graph:
        """The graph of a kind for runs of ``tokens`` tokens."""
        blueprint = Blueprint(self.file, self.config, self.positions, self._adapters_of(kind))
        return build_graph(kind, blueprint, tokens, optimizer=self.optimizer, cache_rows=cache_rows)

    def program(self, kind: Kind, tokens: int) -> Program:
        """The compiled program of a kind and size; the least recently used go first."""
        key = (kind, tokens)
        if key not in self._programs:
            self._programs[key] = Program(self.graph(kind, tokens), self.store)
            if len(self._programs) > MOST_PROGRAMS:
                self._programs.popitem(last=False)
        self._programs.move_to_end(key)
        return self._programs[key]

    def set_adapters(
        self, adapters: Mapping[str, Adapter], factors: Mapping[str, Float32s]
    ) -> None:
        """Replaces the adapter: place in the graphs, factors, and an optimizer state of zeros.

        Args:
            factors: ``<weight>.lora_a`` (r, in) and ``<weight>.lora_b`` (out, r) for each weight.

        Raises:
            GgufError: a weight is none of the products that adapters act on; nothing changed.
        """
        for name in set(adapters) - set(target_weights(self.config, ("auto",))):
            aliases = ", ".join(TARGET_ALIASES)
            rule = f"an adapter acts on the products {aliases} of a block"
            raise GgufError("adapter", rule, repr(name), "train on these targets alone")
        self._drop_adapter()
        self.adapters = dict(adapters)
        for value in self.graph(Kind.LOSS, 8).values:
            if value.name in factors:
                self.store.ensure(value)
        for name, data in factors.items():
            self.store.write(name, data)

    def factor(self, name: str) -> Float32s:
        """A copy of one factor."""
        weight, _, part = name.rpartition(".")
        rank = self.adapters[weight].rank
        rows, columns = self.file.tensor(weight).shape
        out = np.empty((rank, columns) if part == "lora_a" else (rows, rank), np.float32)
        self.device.stream.to_host(self.store.address(name), out)
        return out

    def base_digest(self) -> str:
        """SHA-256 over the stored bytes of every tensor, as they lie in memory now."""
        sha = hashlib.sha256()
        for name in self.file.tensors:
            sha.update(name.encode())
            sha.update(self.file.data(name))
        return sha.hexdigest()

    def summary(self) -> list[str]:
        """Lines for the user: device with requested beside effective, and admission's answer."""
        probe = self.device.probe()
        program = self.program(Kind.TRAIN if self.trains else Kind.LOSS, 8)
        return [
            f"device: {probe['device']} ({probe['isa']}), threads {self.device.threads} requested, "
            f"{probe['threads']} effective, BLAS {probe['blas']}",
            *admission.summary(program.admitted),
        ]

    def largest_plan(self) -> dict[str, int]:
        """Planned bytes by post of the compiled program with the largest arena."""
        plans = [program.plan for program in self._programs.values()]
        return dict(max(plans, key=lambda plan: plan.arena_bytes).posts) if plans else {}

    @property
    def trains(self) -> bool:
        return any(adapter.trained for adapter in self.adapters.values())

    def _adapters_of(self, kind: Kind) -> dict[str, Adapter]:
        # Dropout belongs to training alone.
        if kind is Kind.TRAIN:
            return self.adapters
        return {n: Adapter(a.rank, a.scale, a.trained) for n, a in self.adapters.items()}

    def _drop_adapter(self) -> None:
        self._programs.clear()
        parts = ("lora_a", "lora_b")
        suffixes = ("", ".grad", *(f".{slot}" for slot in self.optimizer.slots))
        names = [
            f"{n}.{part}{suffix}" for n in self.adapters for part in parts for suffix in suffixes
        ]
        for name in [*names, SUMS]:
            if self.store.holds(name):
                self.store.drop(name)

    def _admit(self, optimizer: str, lora: LoraOptions | None) -> None:
        """Capabilities before a graph is built, then every node before anything is allocated."""
        if lora is None:
            graph = self.graph(Kind.LOGITS, SMALLEST_TOKENS)
        else:
            run = combination(self.file, self.config, optimizer, self.device.name)
            admission.admit_combination(run, device=self.device)
            graph = step_graph(
                self.file,
                self.config,
                lora=lora,
                optimizer=self.optimizer,
                positions=self.positions,
            )
        admission.admit_all(rows_of(graph, self.device.name), device=self.device)

    def _require_all_used(self, graph: Graph) -> None:
        """A tensor that the family has no place for would change what the model computes."""
        used = {value.name for value in graph.values} | {ROPE_FACTORS}
        unused = [name for name in self.file.tensors if name not in used]
        if unused:
            rule = f"every tensor has a place in the architecture {self.config.architecture!r}"
            got = f"{unused[0]!r}" + (f" and {len(unused) - 1} more" if len(unused) > 1 else "")
            raise GgufError("gguf", rule, got, "use a model of a listed architecture")

    def _bind_weights(self) -> None:
        graph = self.graph(Kind.LOGITS, 8)
        self._require_all_used(graph)
        for value in graph.values:
            if value.role is Role.WEIGHT:
                self.store.bind(value.name, self.file.data(value.name))
            elif value.name in (ROPE_COS, ROPE_SIN):
                self.store.ensure(value)
        factors = self.file.dequantize(ROPE_FACTORS) if ROPE_FACTORS in self.file.tensors else None
        if factors is not None and factors.shape != (self.config.n_rot // 2,):
            rule = f"{ROPE_FACTORS} holds one factor for each rotary pair"
            raise GgufError("gguf", rule, factors.shape, "check the file's metadata")
        if factors is not None and not (np.isfinite(factors) & (factors > 0)).all():
            rule = f"the factors of {ROPE_FACTORS} are positive and finite"
            bad = factors[~(np.isfinite(factors) & (factors > 0))]
            raise GgufError("gguf", rule, float(bad[0]), "convert the model again")
        cos, sin = rope_tables(self.config, self.positions, factors)
        self.store.write(ROPE_COS, cos)
        self.store.write(ROPE_SIN, sin)
