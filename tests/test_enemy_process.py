"""Threads, forks, signals, full disks and closed pipes around a trainer and a run."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.tiny import recipe, write
from retrograd import Trainer, TrainingOptions
from retrograd.backends import open_device, requested_threads
from retrograd.config.document import load_document
from retrograd.errors import ConfigError, DeviceError
from retrograd.export import read_adapter
from retrograd.gguf import open_gguf
from retrograd.train import folder as folders
from retrograd.train import run
from retrograd.train.state import MOST_EPOCHS, Feed
from tests.collecting import COMMAND
from tests.tiny_runs import metrics, record, tiny_run, write_run

# Each test starts processes of its own, for a second or more.
pytestmark = pytest.mark.exhaustive

FORKED = """
import gc, os, sys
from retrograd.backends import open_device
import numpy as np
from retrograd.runtime import launch
device = open_device(threads=4)
x = np.ones(100_000, np.float32)
def fill():
    launch(device, "add.forward.f32.cpu", a=x, b=x, y=x.copy(), n=x.size)
fill()
child = os.fork()
if child == 0:
    fill()
    del device
    gc.collect()
    os._exit(7)
assert os.waitpid(child, 0)[1] == 7 << 8
fill()
"""


def _start(tmp_path: Path, *sets: str, before: Callable[[], None] | None = None) -> Any:
    command = [*COMMAND, "-m", "retrograd", "train", str(write_run(tmp_path))]
    for one in sets:
        command += ["--set", one]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before
    )


def _until(process: Any, start: str) -> None:
    for line in process.stdout:
        if line.startswith(start):
            return


def test_python_threads_share_a_trainer_without_mixing_their_rows(tmp_path: Path) -> None:
    model = write(recipe(layers=1), tmp_path)
    trainer = Trainer(model, training=TrainingOptions(threads=3))
    rows = [list(range(5, 5 + n)) for n in (9, 17, 40, 55)]
    want = [trainer.logits(row) for row in rows]
    wrong: list[object] = []

    def work() -> None:
        for _ in range(20):
            for row, logits in zip(rows, want, strict=True):
                if not np.array_equal(trainer.logits(row), logits):
                    wrong.append(len(row))

    threads = [threading.Thread(target=copy_context().run, args=(work,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_a_forked_child_computes_and_ends_without_the_workers() -> None:
    code = f"from retrograd.admission import collecting_evidence\n{FORKED}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_too_many_threads_for_the_system_is_an_error_and_no_crash() -> None:
    code = (
        "import resource\n"
        "from retrograd.backends import open_device\n"
        "from retrograd.errors import DeviceError\n"
        "open_device(threads=1)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "try:\n    open_device(threads=1024)\n"
        "except DeviceError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[cpu] the system starts no more threads")


@pytest.mark.parametrize("text", ["0", "-1", "abc", "1e9", "", " 3", "\u00b2", "9" * 5000])
def test_threads_in_the_environment(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RETRO_THREADS", text)
    with pytest.raises(ConfigError, match=r"RETRO_THREADS is a whole number"):
        requested_threads()


def test_an_unknown_variant_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRO_CPU_ISA", "bogus")
    with pytest.raises(DeviceError, match=r"RETRO_CPU_ISA.*portable, avx2; got 'bogus'"):
        open_device(threads=1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_writes_what_there_is(tmp_path: Path, number: signal.Signals) -> None:
    process = _start(tmp_path, "training.steps=20000")
    _until(process, "step 3/")
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    folder = tmp_path / "runs" / "tiny"
    assert record(folder)["status"] == "interrupted"
    model = open_gguf(tmp_path / record(folder)["document"]["model"]["path"])
    assert len(read_adapter(folder / "adapter.gguf", model).factors) == 7


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    process = _start(
        tmp_path,
        "training.steps=60",
        before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None,
    )
    _until(process, "step 3/")
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert record(tmp_path / "runs" / "tiny")["status"] == "finished"


def test_a_closed_pipe_does_not_end_a_run(tmp_path: Path) -> None:
    process = _start(tmp_path, "training.steps=60")
    _until(process, "step 3/")
    process.stdout.close()
    assert process.wait(timeout=60) == 0, process.stderr.read()
    process.stderr.close()
    assert record(tmp_path / "runs" / "tiny")["figures"]["steps"] == 60


def test_output_that_cannot_show_a_path_does_not_end_a_run(tmp_path: Path) -> None:
    command = [*COMMAND, "-m", "retrograd", "train", str(write_run(tmp_path))]
    command += ["--set", "output.dir='\u6f22'"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "\\u6f22" in done.stdout
    assert record(tmp_path / "\u6f22" / "tiny")["status"] == "finished"


def test_a_disk_without_room_for_the_result_is_refused_before_the_first_step(
    tmp_path: Path,
) -> None:
    limit = 40_000
    process = _start(
        tmp_path,
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2, errors
    assert errors.startswith("[output] the run folder can be written; got ")
    assert "Traceback" not in errors
    assert "step 1/" not in output


def test_a_disk_that_fills_up_costs_the_metrics_and_not_the_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tiny_run(tmp_path)
    write_line = folders.RunFolder.metric
    written: list[int] = []

    def full(self: folders.RunFolder, values: dict[str, object]) -> None:
        if len(written) < 3:
            write_line(self, values)
            written.append(1)
            return
        with self.written():
            self._metrics.write(b'{"half a line')
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders.RunFolder, "metric", full)
    with pytest.raises(ConfigError, match=r"\[output\].*No space left"):
        run(document)
    folder = document.output.folder
    found = record(folder)
    assert found["status"] == "failed"
    assert found["figures"]["steps"] == 3
    assert len(read_adapter(folder / "adapter.gguf", open_gguf(document.model.path)).factors) == 7
    assert not (folder / folders.RESERVE).exists()


def test_half_a_line_is_taken_back(tmp_path: Path) -> None:
    folder = folders.RunFolder(tmp_path / "run")
    folder.metric({"step": 1})

    class Full:
        """The first write takes half, the second fails: what a full disk does."""

        def __init__(self, file: Any) -> None:
            self.file = file
            self.calls = 0

        def write(self, data: memoryview) -> int:
            self.calls += 1
            if self.calls > 1:
                raise OSError(28, "No space left on device")
            return self.file.write(data[: len(data) // 2])

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    plain = folder._metrics
    monkey: Any = Full(plain)
    folder._metrics = monkey
    with pytest.raises(ConfigError, match=r"No space left"):
        folder.metric({"step": 2})
    folder._metrics = plain
    folder.close()
    assert metrics(tmp_path / "run") == [{"step": 1}]


@pytest.mark.parametrize("name", ["a\\u0000b", "n" * 300])
def test_a_name_that_no_folder_can_have(tmp_path: Path, name: str) -> None:
    path = write_run(tmp_path)
    with pytest.raises(ConfigError, match=r"^\[(config|output)\]"):
        run(load_document(path, overrides={"output.name": json.loads(f'"{name}"')}))


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "[" + ".".join(["a"] * 5000) + "]\n",
        "[training]\nsteps = " + "9" * 5000,
    ],
)
def test_documents_that_exhaust_a_parser(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"^\[config\] run.toml"):
        load_document(path)


def test_text_without_a_utf8_form_in_an_override(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    with pytest.raises(ConfigError, match=r"UTF-8 form"):
        load_document(path, overrides={"output.dir": "\udcc3"})


def test_the_largest_micro_batch_of_endless_runs_is_bounded_at_once(tmp_path: Path) -> None:
    document = tiny_run(tmp_path)
    trainer = Trainer(document.model.path)
    from retrograd.text import load_examples

    data = load_examples(document.data.train, trainer.tokenizer, max_tokens=64)
    lengths = sorted((len(row.token_ids) for row in data.examples), reverse=True)
    feed = Feed(data, seed=0, rows_per_step=4)
    assert feed.largest_micro_batch(10**30, 3) == sum(lengths[:3])
    assert feed.largest_micro_batch(feed.steps_per_epoch * MOST_EPOCHS, 3) <= sum(lengths[:3])
    assert feed.largest_micro_batch(1, 10**30) <= sum(lengths)


def test_runs_of_more_steps_than_a_stream_counts_are_refused(tmp_path: Path) -> None:
    document = tiny_run(tmp_path, {"training.steps": 0, "training.epochs": 2**33})
    with pytest.raises(ConfigError, match=r"at most 4294967295 steps"):
        run(document)
