"""Ctrl-C: the first ends a run in order, the second at once."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from retrograd.export import read_adapter
from retrograd.gguf import open_gguf
from retrograd.train.interrupt import Interrupts
from tests.collecting import COMMAND
from tests.tiny_runs import metrics, record, write_run

# As long a native call as a step may be: it gives up the interpreter's lock and runs no handler.
LONG_NATIVE_CALL = """
import hashlib
from retrograd.train.interrupt import Interrupts
with Interrupts(lambda: print("first", flush=True), lambda: print("second", flush=True)):
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)
"""


def test_ctrl_c_finishes_the_step_and_writes_what_there_is(tmp_path: Path) -> None:
    document = write_run(tmp_path)
    command = [*COMMAND, "-m", "retrograd", "train", str(document)]
    command += ["--set", "training.steps=20000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 3/"):
            break
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "press again to stop at once" in output
    folder = tmp_path / "runs" / "tiny"
    found = record(folder)
    assert found["status"] == "interrupted"
    assert found["digests"]["base_before"] == found["outputs"]["base_digest_after"]
    steps = [line["step"] for line in metrics(folder) if line["event"] == "step"]
    assert steps == list(range(1, found["figures"]["steps"] + 1))
    assert len(steps) >= 3
    model = open_gguf(found["document"]["model"]["path"])
    assert len(read_adapter(folder / "adapter.gguf", model).factors) == 7
    assert (folder / "loss.svg").is_file()


def test_the_second_ctrl_c_ends_the_process_inside_a_native_call() -> None:
    command = [sys.executable, "-c", LONG_NATIVE_CALL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "first\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "second\n"
        assert process.wait(timeout=10) == 130


def test_the_flag_is_set_once_and_the_old_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    told: list[str] = []
    with Interrupts(lambda: told.append("first"), lambda: told.append("second")) as interrupts:
        assert not interrupts.requested
        os.kill(os.getpid(), signal.SIGINT)
        deadline = time.monotonic() + 10
        while not (interrupts.requested and told) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert interrupts.requested
    assert told == ["first"]
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_nothing_is_changed() -> None:
    before = signal.getsignal(signal.SIGINT)
    inside: list[object] = []

    def work() -> None:
        with Interrupts(lambda: None, lambda: None) as interrupts:
            inside.extend((signal.getsignal(signal.SIGINT), interrupts.requested))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before, False]
