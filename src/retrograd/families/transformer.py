"""The dense pre-norm transformer as a graph.

Every run is T tokens in one flat row. A document's tokens see the keys of their own document up to
themselves
(``key_begin``, ``key_end``) and count positions from 0, so a batch is documents side by side and
needs no padding
between them. With a cache, keys and values are written to rows of a persistent buffer first and
read from there.
"""

from dataclasses import dataclass

from retrograd.errors import GgufError
from retrograd.families.family import ModelConfig
from retrograd.gguf import GgufFile
from retrograd.graph import Builder, Role, Value

ROPE_COS, ROPE_SIN = "rope.cos", "rope.sin"
ROPE_FACTORS = "rope_freqs.weight"


@dataclass(frozen=True)
class Inputs:
    """Per-token inputs, (T,) int32 each. ``cache_rows`` is there only with a cache."""

    ids: Value
    positions: Value
    key_begin: Value
    key_end: Value
    cache_rows: Value | None = None


def add_inputs(builder: Builder, tokens: int, *, cached: bool) -> Inputs:
    """Declares the inputs of a run of T tokens."""
    names = ("ids", "positions", "key_begin", "key_end") + (("cache_rows",) if cached else ())
    return Inputs(*(builder.add_value(name, (tokens,), "i32", Role.INPUT) for name in names))


class Transformer:
    """Adds one model's forward pass to a graph.

    Args:
        builder: graph under construction.
        file: the model; gives shapes and storage formats of weights.
        config: its geometry.
        positions: rows of the rotary tables, the most tokens a document may have.
        cache_rows: rows of the key and value caches, or 0 for none.
    """

    def __init__(
        self,
        builder: Builder,
        file: GgufFile,
        config: ModelConfig,
        *,
        positions: int,
        cache_rows: int = 0,
    ) -> None:
        self.b = builder
        self.file = file
        self.config = config
        self.cache_rows = cache_rows
        self._weights: dict[str, Value] = {}
        table = (positions, config.n_rot // 2)
        self.cos = builder.add_value(ROPE_COS, table, "f32", Role.CONSTANT)
        self.sin = builder.add_value(ROPE_SIN, table, "f32", Role.CONSTANT)

    def weight(self, name: str, shape: tuple[int, ...]) -> Value:
        """The value of a stored tensor, checked against the shape the geometry asks for."""
        if name not in self._weights:
            info = self.file.tensor(name)
            if info.shape != shape:
                raise GgufError(
                    "gguf",
                    f"tensor {name!r} has shape {shape}",
                    info.shape,
                    "check the file's metadata",
                )
            if len(shape) == 1 and info.format != "f32":
                raise GgufError(
                    "gguf",
                    f"vector {name!r} is stored as f32",
                    info.format,
                    "convert vectors to f32",
                )
            self._weights[name] = self.b.add_value(name, shape, info.format, Role.WEIGHT)
        return self._weights[name]

    def hidden(self, inputs: Inputs) -> Value:
        """The final normalised state, (T, C)."""
        c = self.config
        table = self.weight("token_embd.weight", (c.vocabulary, c.width))
        x = self.b.emit("embedding", {"ids": inputs.ids, "w": table}, label="token_embd")["y"]
        for layer in range(c.n_layers):
            x = self._attention(x, inputs, f"blk.{layer}")
            x = self._feed_forward(x, f"blk.{layer}")
        return self._norm(x, "output_norm")

    def head(self) -> Value:
        """The head's weight, (V, C)."""
        return self.weight(self.config.head_tensor, (self.config.vocabulary, self.config.width))

    def _norm(self, x: Value, name: str, size: int | None = None) -> Value:
        w = self.weight(f"{name}.weight", (size or self.config.width,))
        return self.b.emit(
            "rms_norm", {"x": x, "w": w}, settings={"eps": self.config.norm_eps}, label=name
        )["y"]

    def _linear(
        self, x: Value, name: str, rows: int, *, addend: Value | None = None, bias: bool = False
    ) -> Value:
        w = self.weight(f"{name}.weight", (rows, x.shape[1]))
        y = self.b.emit(
            "matmul", {"x": x, "w": w, "c": addend}, settings={"alpha": 1.0}, label=name
        )["y"]
        if bias:
            b = self.weight(f"{name}.bias", (rows,))
            y = self.b.emit("bias", {"x": y, "b": b}, label=f"{name}.bias")["y"]
        return y

    def _rotate(self, x: Value, inputs: Inputs, label: str) -> Value:
        c = self.config
        fields = {"x": x, "positions": inputs.positions, "cos": self.cos, "sin": self.sin}
        settings = {"head_size": c.head_size, "n_rot": c.n_rot, "neox": int(c.family.neox)}
        return self.b.emit("rope", fields, settings=settings, label=label)["y"]

    def _attention(self, x: Value, inputs: Inputs, block: str) -> Value:
        c, traits = self.config, self.config.family
        normed = self._norm(x, f"{block}.attn_norm")
        q = self._linear(normed, f"{block}.attn_q", c.heads * c.head_size, bias=traits.qkv_bias)
        k = self._linear(normed, f"{block}.attn_k", c.kv_heads * c.head_size, bias=traits.qkv_bias)
        v = self._linear(normed, f"{block}.attn_v", c.kv_heads * c.head_size, bias=traits.qkv_bias)
        if traits.qk_norm:
            q = self._norm(q, f"{block}.attn_q_norm", c.head_size)
            k = self._norm(k, f"{block}.attn_k_norm", c.head_size)
        q = self._rotate(q, inputs, f"{block}.rope_q")
        k = self._rotate(k, inputs, f"{block}.rope_k")
        if inputs.cache_rows is not None:
            k = self._cached(k, inputs.cache_rows, f"{block}.cache_k")
            v = self._cached(v, inputs.cache_rows, f"{block}.cache_v")
        settings = {
            "heads": c.heads,
            "kv_heads": c.kv_heads,
            "head_size": c.head_size,
            "scale": c.head_size**-0.5,
        }
        fields = {"q": q, "k": k, "v": v, "key_begin": inputs.key_begin, "key_end": inputs.key_end}
        o = self.b.emit("attention", fields, settings=settings, label=f"{block}.attention")["o"]
        return self._linear(o, f"{block}.attn_output", c.width, addend=x)

    def _cached(self, x: Value, rows: Value, name: str) -> Value:
        cache = self.b.add_value(name, (self.cache_rows, x.shape[1]), "f32", Role.STATE)
        return self.b.emit("scatter_rows", {"x": x, "rows": rows}, into={"y": cache}, label=name)[
            "y"
        ]

    def _feed_forward(self, x: Value, block: str) -> Value:
        normed = self._norm(x, f"{block}.ffn_norm")
        gate = self._linear(normed, f"{block}.ffn_gate", self.config.feed_forward)
        up = self._linear(normed, f"{block}.ffn_up", self.config.feed_forward)
        inner = self.b.emit("swiglu", {"g": gate, "u": up}, label=f"{block}.swiglu")["y"]
        return self._linear(inner, f"{block}.ffn_down", self.config.width, addend=x)
