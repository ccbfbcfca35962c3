"""Memory plan: a place in one arena for every activation and scratch buffer, before allocation."""

from collections.abc import Mapping
from dataclasses import dataclass

from retrograd.graph.graph import Graph, Node, Role
from retrograd.ops import OPS

ALIGNMENT = 64


@dataclass(frozen=True)
class Plan:
    """Where everything lives.

    Attributes:
        offsets: arena offset in bytes of each activation.
        scratch: arena offset in bytes of each node's scratch, by node index.
        arena_bytes: peak of the arena.
        posts: bytes by post: weights, constants, parameters, gradients, state, inputs, activations,
            scratch.
            ``activations`` and ``scratch`` share the arena and sum to its peak at the moment of the
            peak.
    """

    offsets: Mapping[int, int]
    scratch: Mapping[int, int]
    arena_bytes: int
    posts: Mapping[str, int]


def plan(graph: Graph, *, threads: int) -> Plan:
    """Places activations by liveness, best fit; a function of the graph and threads alone."""
    return _Planner(graph, threads).run()


class _Planner:
    def __init__(self, graph: Graph, threads: int) -> None:
        self.graph = graph
        self.threads = threads
        self.heap = _Heap()
        self.offsets: dict[int, int] = {}
        self.scratch: dict[int, int] = {}
        self.live_bytes = 0
        self.at_peak = (0, 0)

    def run(self) -> Plan:
        last_use = self._last_uses()
        for index, node in enumerate(self.graph.nodes):
            dying = {
                v
                for v in (*node.reads, *node.writes)
                if last_use.get(v) == index and self._in_arena(v)
            }
            inherited = self._place_outputs(node, dying)
            self._place_scratch(index, node)
            for vid in sorted(dying - inherited):
                self._free(vid)
        return Plan(self.offsets, self.scratch, self.heap.peak, self._posts())

    def _in_arena(self, vid: int) -> bool:
        return self.graph.values[vid].role is Role.ACTIVATION

    def _last_uses(self) -> dict[int, int]:
        last: dict[int, int] = {}
        for index, node in enumerate(self.graph.nodes):
            for vid in (*node.reads, *node.writes):
                last[vid] = index
        for vid in self.graph.outputs.values():  # the host reads these after the run
            last[vid] = len(self.graph.nodes)
        return last

    def _place_outputs(self, node: Node, dying: set[int]) -> set[int]:
        """Allocates outputs; returns the inputs whose buffer an output took over."""
        kernel = OPS[node.op].kernels[node.direction]
        inherited: set[int] = set()
        for name, vid in node.outputs.items():
            if not self._in_arena(vid):
                continue
            donor = node.inputs.get(kernel.in_place.get(name, ""))
            if (
                donor is not None
                and donor in dying
                and self._may_take(node, donor, vid)
                and donor not in inherited
            ):
                self.offsets[vid] = self.offsets[donor]
                inherited.add(donor)
            else:
                self.offsets[vid] = self.heap.allocate(self._size(vid))
                self.live_bytes += self._size(vid)
        return inherited

    def _may_take(self, node: Node, donor: int, vid: int) -> bool:
        return self._size(donor) == self._size(vid) and node.reads.count(donor) == 1

    def _place_scratch(self, index: int, node: Node) -> None:
        kernel = OPS[node.op].kernels[node.direction]
        if kernel.scratch is None:
            self._note_peak(0)
            return
        stored = self.graph.values[node.inputs[kernel.weight]].dtype if kernel.weight else "f32"
        size = _aligned(kernel.scratch(node.dims, node.settings, self.threads, stored))
        if size:
            self.scratch[index] = self.heap.allocate(size)
        self._note_peak(size)
        if size:
            self.heap.free(self.scratch[index], size)

    def _note_peak(self, scratch: int) -> None:
        if self.live_bytes + scratch > sum(self.at_peak):
            self.at_peak = (self.live_bytes, scratch)

    def _free(self, vid: int) -> None:
        self.heap.free(self.offsets[vid], self._size(vid))
        self.live_bytes -= self._size(vid)

    def _size(self, vid: int) -> int:
        return _aligned(self.graph.values[vid].n_bytes)

    def _posts(self) -> dict[str, int]:
        posts = {role: 0 for role in Role if role is not Role.ACTIVATION}
        for value in self.graph.values:
            if value.role in posts and value.view is None:
                posts[value.role] += value.n_bytes
        named = {
            "weights": posts[Role.WEIGHT],
            "constants": posts[Role.CONSTANT],
            "parameters": posts[Role.PARAMETER],
            "gradients": posts[Role.GRADIENT],
            "state": posts[Role.STATE],
            "inputs": posts[Role.INPUT],
        }
        live, scratch = self.at_peak
        # What first-fit placement loses to holes is counted as scratch, so that the two add up to
        # the arena.
        return {**named, "activations": live, "scratch": scratch + self.heap.peak - live - scratch}


class _Heap:
    """Address space with a sorted free list; best fit, lowest address first among equals."""

    def __init__(self) -> None:
        self.peak = 0
        self._free: list[tuple[int, int]] = []  # (offset, size), sorted, coalesced

    def allocate(self, size: int) -> int:
        if size == 0:
            return 0
        fits = [
            (length, offset, i) for i, (offset, length) in enumerate(self._free) if length >= size
        ]
        if fits:
            length, offset, i = min(fits)
            if length == size:
                del self._free[i]
            else:
                self._free[i] = (offset + size, length - size)
            return offset
        # Grow at the end, starting inside a free block that touches the end.
        offset = self.peak
        if self._free and sum(self._free[-1]) == self.peak:
            offset = self._free.pop()[0]
        self.peak = offset + size
        return offset

    def free(self, offset: int, size: int) -> None:
        if size == 0:
            return
        merged: list[tuple[int, int]] = []
        for start, length in sorted([*self._free, (offset, size)]):
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self._free = merged


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT
