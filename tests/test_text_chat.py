"""Chat templates: what they are given, what they may not do, and what it says when they fail."""

import datetime
import time

import pytest

from retrograd.errors import ConfigError, DataError, GgufError
from retrograd.text import ChatTemplate, Tokenizer, render_chat
from retrograd.text.sandbox import Limits
from tests import text_templates
from tests.text_vocabularies import byte_level

HI = [{"role": "user", "content": "Hi <b> é"}]


def render(source: str, **options: object) -> str:
    return ChatTemplate(source, **options).render(HI)  # pyright: ignore[reportArgumentType]


def test_the_models_template_with_and_without_generation_prompt() -> None:
    metadata = byte_level((), template=text_templates.DEAF)
    assert render_chat(HI, Tokenizer.from_metadata(metadata)) == (
        "<|im_start|>user\nHi <b> é<|im_end|>\n"
    )
    metadata = byte_level((), template=text_templates.SMOLLM2)
    assert render_chat(HI, Tokenizer.from_metadata(metadata), add_generation_prompt=True) == (
        "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nHi <b> é<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ messages | tojson }}", '[{"role": "user", "content": "Hi <b> é"}]'),
        ("{{ {'b': 1, 'a': [2]} | tojson(indent=1) }}", '{\n "b": 1,\n "a": [\n  2\n ]\n}'),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", '{"a": 2, "b": 1}'),
        ("{% for m in messages %}\n  {% if m %}\nx\n  {% endif %}\n{% endfor %}", "x\n"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{{ bos_token ~ '|' ~ eos_token ~ 1 }}", "<s>|</s>1"),
        ("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}", "TrueTrueFalse"),
        ("{{ strftime_now('%d %b %Y') }}", "02 Jan 2025"),
        ("{{ name }}", "n"),
        ("{% generation %}a{% endgeneration %}b", "ab"),
        (
            "{{ 2 ** 10 }} {{ 'ab' * 3 }} {{ '%03d' % 7 }} {{ 'x'.ljust(3, '.') }}",
            "1024 ababab 007 x..",
        ),
        ("{{ undefined_name }}.", "."),
    ],
)
def test_what_templates_expect(source: str, expected: str) -> None:
    options = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "variables": {"name": "n"},
        "now": datetime.datetime(2025, 1, 2),
    }
    assert render(source, **options) == expected


def test_tools_reach_the_template() -> None:
    template = ChatTemplate("{{ tools[0].name }}", tools=[{"name": "clock"}])
    assert template.render(HI) == "clock"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].content.nothing.more }}", "UndefinedError"),
        ("{{ messages[0].content + 1 }}", "TypeError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ range(1000000) | list }}", "OverflowError"),
        ("{{ 'a' * 100000000 }}", "a value of more than"),
        ("{{ 100000000 * [1] }}", "a value of more than"),
        ("{{ 9 ** 99999 }}", "an exponent above 64"),
        ("{{ '%0999999999d' % 1 }}", "a value of more than"),
        ("{{ 'a'.ljust(999999999) }}", "a value of more than"),
        ("{{ 'a' | center(999999999) }}", "a value of more than"),
        ("{% set n = namespace(s='aa') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}"
         "{% endfor %}", "a value of more than"),
        ("{% set n = namespace(s='aa') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}"
         "{% endfor %}", "a value of more than"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    ],
)  # fmt: skip
def test_failures_are_told(source: str, message: str) -> None:
    started = time.monotonic()
    with pytest.raises(DataError, match=f"must render the conversation; got .*{message}"):
        render(source)
    assert time.monotonic() - started < 5


def test_loops_output_and_time_are_bounded() -> None:
    nested = "{% for i in range(9999) %}{% for j in range(9999) %}BODY{% endfor %}{% endfor %}"
    quiet = nested.replace("BODY", "")
    with pytest.raises(DataError, match="more than 1000 loop passes"):
        render(quiet, limits=Limits(loop_passes=1000))
    with pytest.raises(DataError, match=r"longer than 0\.05 seconds"):
        render(quiet, limits=Limits(loop_passes=1 << 60, seconds=0.05))
    with pytest.raises(DataError, match="the output exceeds 5000 characters"):
        render(nested.replace("BODY", "text"), limits=Limits(output_characters=5000))


def test_templates_that_do_not_compile() -> None:
    with pytest.raises(GgufError, match="must be valid Jinja; got TemplateSyntaxError"):
        ChatTemplate("{% for %}")
    with pytest.raises(GgufError, match="must be valid Jinja; got TemplateSyntaxError"):
        ChatTemplate("{% generation %}never closed")
    with pytest.raises(GgufError, match="must have at most 10 characters; got 11"):
        ChatTemplate("x" * 11, limits=Limits(source_characters=10))


def test_arguments_of_a_template() -> None:
    with pytest.raises(ConfigError, match=r"must not replace .*; got messages, tools"):
        ChatTemplate("", variables={"tools": 1, "messages": 2, "x": 3})
    with pytest.raises(DataError, match="JSON values only"):
        ChatTemplate("").render([{"role": object()}])
    with pytest.raises(DataError, match=r"noncharacters U\+FDD0"):
        ChatTemplate("").render([{"role": "user", "content": "\ufdd0"}])
    with pytest.raises(DataError, match="must not lie inside one another"):
        render("{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}")
