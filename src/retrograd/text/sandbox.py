"""The jinja2 environment that chat templates run in.

It offers what such templates expect (``raise_exception``, ``strftime_now``, ``tojson`` that leaves
characters as they are, loop controls, ``{% generation %}`` blocks, whitespace trimmed around
blocks) and counts what they use. Filters that pad or repeat are bounded by their arguments.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

# Noncharacters: Unicode promises that no text carries a meaning on them.
OPEN, CLOSE = "\ufdd0", "\ufdd1"

_LARGEST_EXPONENT = 64


@dataclass(frozen=True)
class Limits:
    """Bounds on one rendering.

    Attributes:
        source_characters: length of the template.
        output_characters: length of the rendered text, and of any text built on the way.
        loop_passes: passes through all loop bodies together.
        seconds: time on the clock, looked at in every loop pass.
    """

    source_characters: int = 1 << 20
    output_characters: int = 1 << 24
    loop_passes: int = 1_000_000
    seconds: float = 10.0


class TemplateFaultError(ValueError):
    """A template raised an error on purpose, or exceeded a limit."""


class Budget:
    """Counts loop passes and watches the clock during one rendering."""

    def __init__(self, limits: Limits) -> None:
        """Count against ``limits``."""
        self._limits = limits
        self.start()

    def start(self) -> None:
        """Begin a rendering."""
        self._passes = 0
        self._deadline_s = time.monotonic() + self._limits.seconds

    def tick(self) -> str:
        """Account for one pass through a loop body; the result prints as nothing."""
        self._passes += 1
        if self._passes > self._limits.loop_passes:
            raise TemplateFaultError(f"more than {self._limits.loop_passes} loop passes")
        if time.monotonic() > self._deadline_s:
            raise TemplateFaultError(f"longer than {self._limits.seconds} seconds")
        return ""

    def check_size(self, size: int) -> None:
        """Refuse to build a text or list of more than the permitted size."""
        if size > self._limits.output_characters:
            limit = self._limits.output_characters
            raise TemplateFaultError(f"a value of more than {limit} elements")


def build_environment(limits: Limits) -> "tuple[ImmutableSandboxedEnvironment, Budget]":
    """An environment for one template, and its budget, to be started at each rendering."""
    budget = Budget(limits)
    environment: Any = _environment_class()(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_generation_extension(), "jinja2.ext.loopcontrols"],
    )
    environment.filters["tojson"] = _to_json
    environment.filters |= {
        name: _bounded(environment.filters[name], budget) for name in ("center", "indent", "format")
    }
    environment.globals |= {
        "raise_exception": _raise_exception,
        "_tick": budget.tick,
    }
    environment.budget = budget
    return environment, budget


def _raise_exception(message: object) -> None:
    raise TemplateFaultError(str(message))


def _to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 (templates pass these by position too)
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    # jinja2's own filter escapes HTML; models are trained on plain JSON.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _bounded(inner: Callable[..., Any], budget: Budget) -> Callable[..., Any]:
    def bounded(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 (a filter of any type)
        _check_arguments(budget, arguments, options)
        return inner(*arguments, **options)

    return bounded


@cache
def _environment_class() -> "type[ImmutableSandboxedEnvironment]":
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.visitor import NodeTransformer

    class Counted(NodeTransformer):
        """Adds a tick to every loop body, and sends ``~`` through the bounded ``+``."""

        def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 (jinja2 names visitors so)
            self.generic_visit(node)
            tick = nodes.Call(nodes.Name("_tick", "load"), [], [], None, None)
            node.body.insert(0, nodes.Output([tick]).set_lineno(node.lineno))
            return node

        def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
            self.generic_visit(node)
            texts = [nodes.Filter(part, "string", [], [], None, None) for part in node.nodes]
            total: nodes.Expr = texts[0]
            for text in texts[1:]:
                total = nodes.Add(total, text)
            return total

    class Sandbox(ImmutableSandboxedEnvironment):
        """The sandbox with sizes checked where an operator or a call can make a value grow."""

        intercepted_binops = frozenset({"+", "*", "**", "%"})
        budget: Budget

        def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
            return Counted().visit(super()._parse(source, name, filename))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
            _check_operator(self.budget, operator, left, right)
            return super().call_binop(context, operator, left, right)

        def call(self, context: Any, function: Any, /, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            if isinstance(getattr(function, "__self__", None), str):
                _check_arguments(self.budget, arguments, options)
            return super().call(context, function, *arguments, **options)

    return Sandbox


def _check_arguments(
    budget: Budget, arguments: tuple[object, ...], options: Mapping[str, object]
) -> None:
    """Refuse padding and repeating by more than the permitted size."""
    for value in (*arguments, *options.values()):
        if isinstance(value, int):
            budget.check_size(value)


def _check_operator(budget: Budget, operator: str, left: object, right: object) -> None:
    """Refuse before the value exists what would be too large once it does."""
    left_size, right_size = _size(left), _size(right)
    if operator == "+" and left_size is not None and right_size is not None:
        budget.check_size(left_size + right_size)
    if operator == "*" and isinstance(right, int) and left_size is not None:
        budget.check_size(left_size * right)
    if operator == "*" and isinstance(left, int) and right_size is not None:
        budget.check_size(right_size * left)
    if operator == "**" and not (isinstance(right, int) and abs(right) <= _LARGEST_EXPONENT):
        raise TemplateFaultError(f"an exponent above {_LARGEST_EXPONENT}")
    if operator == "%" and isinstance(left, str):
        widths = "".join(c if c in "0123456789" else " " for c in left).split()
        budget.check_size(max((int(width[:20]) for width in widths), default=0))


def _size(value: object) -> int | None:
    return len(value) if isinstance(value, str | list | tuple) else None  # pyright: ignore[reportUnknownArgumentType]


@cache
def _generation_extension() -> type:
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser

    class Generation(Extension):
        """``{% generation %}...{% endgeneration %}``: text that the model itself writes."""

        tags = {"generation"}  # noqa: RUF012 (jinja2 declares it as an instance attribute)

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = self.call_method("mark")
            return nodes.CallBlock(call, [], [], body).set_lineno(line)

        def mark(self, caller: Callable[[], str]) -> str:
            return OPEN + caller() + CLOSE

    return Generation
