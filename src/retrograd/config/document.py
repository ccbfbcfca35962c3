"""The run document: one TOML file per run, read, checked and resolved.

Keys and defaults are those of :mod:`retrograd.config.options`, table by table. All that is wrong
with a document is told in one error: unknown keys with the nearest known one, values of the wrong
type, values outside their domain, and files that are not there.
"""

import dataclasses
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from retrograd.config.options import (
    DataOptions,
    LoraOptions,
    ModelOptions,
    OptimizerOptions,
    OutputOptions,
    RunDocument,
    TrainingOptions,
)
from retrograd.config.rules import OptionsError, nearest, plain
from retrograd.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic_core import ErrorDetails

TABLES: "Mapping[tuple[str, ...], type[DataclassInstance]]" = {
    ("model",): ModelOptions,
    ("data",): DataOptions,
    ("lora",): LoraOptions,
    ("training",): TrainingOptions,
    ("training", "optimizer"): OptimizerOptions,
    ("output",): OutputOptions,
}
# Error types of pydantic -> what the value must be.
_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text in quotes",
    "path_type": "a path in quotes",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "dataclass_type": "a table",
}


class Document(BaseModel):
    """The schema of a run document; unknown keys are errors, and no value is converted."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, title="retrograd run"
    )

    model: ModelOptions
    data: DataOptions
    lora: LoraOptions = Field(default_factory=LoraOptions)
    training: TrainingOptions = Field(default_factory=TrainingOptions)
    output: OutputOptions = Field(default_factory=OutputOptions)


def json_schema() -> dict[str, Any]:
    """JSON schema of a run document, for editors."""
    return Document.model_json_schema()


def load_document(
    path: str | Path, *, overrides: Mapping[str, object] | None = None
) -> RunDocument:
    """Read, check and resolve a run document.

    Paths in it resolve against the document's folder; an empty ``output.name`` becomes the
    document's name.

    Args:
        path: a TOML file.
        overrides: values by dotted key, such as ``{"training.steps": 20}``, that replace those of
            the document before it is checked.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong; several faults are told
            together.
    """
    path = Path(path)
    values = _read(path)
    for key, value in (overrides or {}).items():
        _replace(values, key, value)
    document = _resolved(_checked(values, path.name), path)
    missing = list(_missing_files(document, path.name))
    if missing:
        raise OptionsError(missing)
    return document


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        got = f"{path}: {error.strerror or error}"
        raise ConfigError("config", "a run document can be read", got, "check the path") from error
    except UnicodeDecodeError as error:
        got = f"byte {error.start} of {path}"
        raise ConfigError("config", "a run document is UTF-8", got, "save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        # Not of TOML's own error class: a number of thousands of digits, or too many brackets.
        rule = f"{path.name}: a run document is valid TOML"
        raise ConfigError("config", rule, error, "correct that line") from error


def _replace(values: dict[str, Any], key: str, value: object) -> None:
    *tables, last = key.split(".")
    for name in tables:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            break
        values = cast("dict[str, Any]", inner)
    else:
        values[last] = value
        return
    raise ConfigError("config", f"{name} is a table", key, "name a key as table.key")


def _checked(values: Mapping[str, Any], file: str) -> RunDocument:
    try:
        # Through JSON: there a list is a tuple and text is a path without any other conversion.
        text = json.dumps(values, default=plain, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as error:
        rule = f"{file}: values have a UTF-8 form and nest a few levels deep"
        raise ConfigError("config", rule, error, "correct the value") from error
    try:
        document = Document.model_validate_json(text)
        return RunDocument(**{name: getattr(document, name) for name in Document.model_fields})
    except ValidationError as error:
        found = [e for detail in error.errors() for e in _translated(detail, file)]
    except OptionsError as error:
        found = list(_placed(error, file))
    raise OptionsError(found)


def _translated(detail: "ErrorDetails", file: str) -> Iterator[ConfigError]:
    """What pydantic found, in our words."""
    broken = detail.get("ctx", {}).get("error")
    if isinstance(broken, OptionsError):
        yield from _placed(broken, file)
        return
    at = [part for part in detail["loc"] if isinstance(part, str)] or ["document"]
    table = tuple(at[:2]) if tuple(at[:2]) in TABLES else tuple(at[:1])
    is_table = tuple(at) in TABLES
    place = file if is_table or len(at) == 1 else f"{file}, {'.'.join(table)}"
    key = ".".join(at if is_table else at[len(table) :]) or at[0]
    kind, got = detail["type"], f"{key} = {_shown(detail['input'])}"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        yield _unknown_key(key, () if len(at) == 1 else table, place)
    elif kind == "missing":
        what = f"the table [{key}]" if is_table else f"the key {key}"
        yield ConfigError("config", f"{place}: {what} is required", "none", "add it")
    elif kind == "literal_error":
        rule = f"{place}: {key} is one of {detail['ctx']['expected']}"  # pyright: ignore[reportTypedDictNotRequiredAccess]
        yield ConfigError("config", rule, got, "choose one of these")
    else:
        rule = f"{key} is {_KINDS[kind]}" if kind in _KINDS else f"{key}: {detail['msg']}"
        yield ConfigError("config", f"{place}: {rule}", got, "correct the value")


def _placed(error: OptionsError, file: str) -> Iterator[ConfigError]:
    for one in error.errors:
        yield ConfigError(one.where, f"{file}, {one.rule}", one.got, one.remedy)


def _unknown_key(key: str, table: tuple[str, ...], place: str) -> ConfigError:
    """An unknown key or table, with the nearest known one or the table it belongs to."""
    known = _keys(table)
    like = nearest(key, known)
    homes = [at for at in TABLES if key in _keys(at)]
    if homes:
        remedy = f"move it to [{'.'.join(homes[0])}]"
    elif like:
        remedy = f"write {like}"
    else:
        remedy = f"use one of {', '.join(known)}"
    rule = f"{place}: {'a key' if table else 'a table'} of a run document is a known one"
    return ConfigError("config", rule, key, remedy)


def _keys(table: tuple[str, ...]) -> Sequence[str]:
    if not table:
        return tuple(Document.model_fields)
    return tuple(field.name for field in dataclasses.fields(TABLES[table]))


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _resolved(document: RunDocument, path: Path) -> RunDocument:
    folder = path.resolve().parent

    def absolute(given: Path | None) -> Any:  # noqa: ANN401 — a Path exactly where one is given
        return None if given is None else folder / given.expanduser()

    model, data, output = document.model, document.data, document.output
    return dataclasses.replace(
        document,
        model=dataclasses.replace(
            model, path=absolute(model.path), adapter=absolute(model.adapter)
        ),
        data=dataclasses.replace(
            data,
            train=absolute(data.train),
            eval=absolute(data.eval),
            template=absolute(data.template),
        ),
        output=dataclasses.replace(output, dir=absolute(output.dir), name=output.name or path.stem),
    )


def _missing_files(document: RunDocument, file: str) -> Iterator[ConfigError]:
    for table, key in (
        ("model", "path"),
        ("model", "adapter"),
        ("data", "train"),
        ("data", "eval"),
        ("data", "template"),
    ):
        given: Path | None = getattr(getattr(document, table), key)
        if given is not None and not given.is_file():
            rule = f"{file}, {table}: {key} names a file"
            remedy = "check the path; it resolves against the document's folder"
            yield ConfigError("config", rule, given, remedy)
