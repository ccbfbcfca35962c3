"""The run document: the same keys as the Python options, and errors that name key and place."""

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from retrograd.config import RunDocument
from retrograd.config.document import TABLES, json_schema, load_document
from retrograd.errors import ConfigError

SHORT = '[model]\npath = "m.gguf"\n[data]\ntrain = "t.jsonl"\n'


def write(folder: Path, text: str, name: str = "demo.toml") -> Path:
    for file in ("m.gguf", "t.jsonl", "h.jsonl", "a.gguf", "chat.jinja"):
        (folder / file).touch()
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def messages(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load_document(write(folder, text))
    return str(refused.value).splitlines()


def table_schema(path: tuple[str, ...]) -> dict[str, Any]:
    schema = json_schema()
    node = schema
    for name in path:
        reference = node["properties"][name]["$ref"]
        node = schema["$defs"][reference.rpartition("/")[2]]
    return node


@pytest.mark.parametrize("path", list(TABLES), ids=".".join)
def test_a_table_has_the_keys_and_the_defaults_of_its_options(path: tuple[str, ...]) -> None:
    fields = {field.name: field for field in dataclasses.fields(TABLES[path])}
    node = table_schema(path)
    assert list(node["properties"]) == list(fields)
    assert node["additionalProperties"] is False
    for name, entry in node["properties"].items():
        if "default" in entry:
            default = entry["default"]
            kept = tuple(default) if isinstance(default, list) else default
            own = fields[name].default
            assert kept == (str(own) if isinstance(own, Path) else own), name


def test_every_key_can_be_written_and_arrives_where_python_has_it(tmp_path: Path) -> None:
    text = """
[model]
path = "m.gguf"
adapter = "a.gguf"
device = "cpu"
[data]
train = "t.jsonl"
eval = "h.jsonl"
kind = "chat"
too_long = "drop"
template = "chat.jinja"
template_variables = { enable_thinking = false, depth = 2, share = 0.5, name = "x" }
template_date = 2024-02-29
[lora]
rank = 4
alpha = 8
dropout = 0.25
rslora = true
targets = ["q", "v"]
[training]
epochs = 3
steps = 50
micro_batch = 2
accumulation = 5
context = 64
seed = 7
eval_every = 10
log_every = 4
threads = 2
[training.optimizer]
name = "sgd"
learning_rate = 0.5
weight_decay = 0.125
max_grad_norm = 2
beta1 = 0.5
beta2 = 0.75
eps = 1e-6
momentum = 0.9
nesterov = true
schedule = "linear"
warmup_steps = 3
final_rate_share = 0.25
[output]
dir = "out"
name = "again"
overwrite = true
"""
    document = load_document(write(tmp_path, text))
    found = document.to_json()
    assert found["model"] == {
        "path": str(tmp_path / "m.gguf"),
        "adapter": str(tmp_path / "a.gguf"),
        "device": "cpu",
    }
    assert found["data"] == {
        "train": str(tmp_path / "t.jsonl"),
        "eval": str(tmp_path / "h.jsonl"),
        "kind": "chat",
        "too_long": "drop",
        "template": str(tmp_path / "chat.jinja"),
        "template_variables": {"enable_thinking": False, "depth": 2, "share": 0.5, "name": "x"},
        "template_date": "2024-02-29",
    }
    assert document.data.template_date == datetime.date(2024, 2, 29)
    assert found["lora"] == {
        "rank": 4,
        "alpha": 8.0,
        "dropout": 0.25,
        "rslora": True,
        "targets": ["q", "v"],
    }
    assert document.lora.targets == ("q", "v")
    optimizer = found["training"].pop("optimizer")
    assert list(found["training"].values()) == [3, 50, 2, 5, 64, 7, 10, 4, 2]
    expected = ["sgd", 0.5, 0.125, 2.0, 0.5, 0.75, 1e-6, 0.9, True, "linear", 3, 0.25]
    assert list(optimizer.values()) == expected
    assert found["output"] == {"dir": str(tmp_path / "out"), "name": "again", "overwrite": True}


def test_a_short_document_has_the_defaults_of_python(tmp_path: Path) -> None:
    document = load_document(write(tmp_path, SHORT))
    plain = RunDocument(document.model, document.data)
    assert document.lora == plain.lora
    assert document.training == plain.training
    assert document.output.folder == tmp_path / "runs" / "demo"
    assert not document.output.overwrite


def test_paths_resolve_against_the_document_and_not_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    path = write(inner, SHORT.replace("t.jsonl", "../t.jsonl"))
    (tmp_path / "t.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    document = load_document(path.relative_to(tmp_path))
    assert document.model.path == inner / "m.gguf"
    assert document.data.train.resolve() == tmp_path / "t.jsonl"


def test_an_unknown_key_names_the_nearest_one_and_its_place(tmp_path: Path) -> None:
    text = SHORT + "[training]\nmicro_batsh = 3\n[training.optimizer]\nlearning_rat = 1\n"
    assert sorted(messages(tmp_path, text), key=len) == [
        "[config] demo.toml, training: a key of a run document is a known one;"
        " got micro_batsh; write micro_batch",
        "[config] demo.toml, training.optimizer: a key of a run document is a known one;"
        " got learning_rat; write learning_rate",
    ]


def test_a_key_in_the_wrong_table_names_its_own(tmp_path: Path) -> None:
    (told,) = messages(tmp_path, SHORT + "[training]\nlearning_rate = 1.0\n")
    assert told.endswith("got learning_rate; move it to [training.optimizer]")
    (told,) = messages(tmp_path, "steps = 3\n" + SHORT)
    assert told == (
        "[config] demo.toml: a table of a run document is a known one;"
        " got steps; move it to [training]"
    )
    (told,) = messages(tmp_path, SHORT + "[outputs]\n")
    assert told.endswith("got outputs; write output")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[lora]\nrank = 2.5", "lora: rank is a whole number; got rank = 2.5"),
        ("[lora]\nrank = true", "lora: rank is a whole number; got rank = true"),
        ("[lora]\nrank = '8'", 'lora: rank is a whole number; got rank = "8"'),
        ("[lora]\nalpha = '8'", 'lora: alpha is a number; got alpha = "8"'),
        ("[lora]\nalpha = inf", "lora: alpha is a finite number; got alpha = Infinity"),
        ("[lora]\nrslora = 1", "lora: rslora is true or false; got rslora = 1"),
        ("[lora]\ntargets = 'q'", 'lora: targets is a list; got targets = "q"'),
        ("[lora]\ntargets = [1]", "lora: targets is text in quotes; got targets = 1"),
        ("[output]\ndir = 3", "output: dir is text in quotes; got dir = 3"),
        ("[training]\noptimizer = 3", "training.optimizer is a table; got training.optimizer = 3"),
        (
            "[training.optimizer]\nschedule = 'cosin'",
            "training.optimizer: schedule is one of 'constant', 'linear' or 'cosine';"
            ' got schedule = "cosin"',
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_named(tmp_path: Path, line: str, told: str) -> None:
    (message,) = messages(tmp_path, f"{SHORT}{line}\n")
    assert told in message
    assert message.startswith("[config] demo.toml")


def test_missing_tables_and_keys_are_asked_for(tmp_path: Path) -> None:
    assert messages(tmp_path, "[data]\n") == [
        "[config] demo.toml: the table [model] is required; got none; add it",
        "[config] demo.toml, data: the key train is required; got none; add it",
    ]


def test_faults_of_different_kinds_are_told_together(tmp_path: Path) -> None:
    text = (
        SHORT.replace("train", "trian")
        + '[lora]\nrank = 0\ndropout = 1.5\n[training]\nsteps = "9"\n'
        + "[training.optimizer]\nnesterov = true\n"
    )
    told = messages(tmp_path, text)
    assert len(told) == 6
    assert [part in "\n".join(told) for part in ("trian", "rank = 0", "dropout = 1.5")] == [
        True
    ] * 3
    assert "nesterov needs momentum above 0" in told[-1]


def test_tables_that_contradict_each_other(tmp_path: Path) -> None:
    (told,) = messages(tmp_path, SHORT + "[training]\neval_every = 5\n")
    assert told.startswith("[config] demo.toml, training: eval_every needs held-out data")
    (told,) = messages(tmp_path, SHORT + 'eval = "t.jsonl"\n')
    assert told.startswith("[config] demo.toml, data: eval is another file than train")


def test_files_that_are_not_there_are_named_with_their_key(tmp_path: Path) -> None:
    told = messages(tmp_path, '[model]\npath = "no.gguf"\n[data]\ntrain = "no.jsonl"\n')
    assert [line.split(" names")[0] for line in told] == [
        "[config] demo.toml, model: path",
        "[config] demo.toml, data: train",
    ]
    assert str(tmp_path / "no.gguf") in told[0]


def test_a_document_that_cannot_be_read_or_parsed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_document(tmp_path / "absent.toml")
    (told,) = messages(tmp_path, "[model\n")
    assert "valid TOML" in told
    assert "line 1" in told
    path = write(tmp_path, "")
    path.write_bytes(b"# \xff\n")
    with pytest.raises(ConfigError, match="byte 2"):
        load_document(path)


def test_overrides_replace_values_before_they_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path, SHORT)
    changed = load_document(path, overrides={"training.optimizer.beta1": 0.5, "lora.rank": 3})
    assert changed.training.optimizer.beta1 == 0.5
    assert changed.lora.rank == 3
    with pytest.raises(ConfigError, match="got stepz; write steps"):
        load_document(path, overrides={"training.stepz": 3})
    with pytest.raises(ConfigError, match="path is a table"):
        load_document(path, overrides={"model.path.deep": 3})


def test_the_resolved_document_is_json(tmp_path: Path) -> None:
    document = load_document(write(tmp_path, SHORT))
    again = json.loads(json.dumps(document.to_json()))
    assert set(again) == {"model", "data", "lora", "training", "output"}
    assert again["training"]["optimizer"]["learning_rate"] == 2e-4
