"""The run folder: run.json, metrics.jsonl, loss.svg and adapter.gguf."""

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from retrograd.config.options import RunDocument
from retrograd.errors import ConfigError
from retrograd.gguf import replace_file

RUN, METRICS, PLOT, ADAPTER = "run.json", "metrics.jsonl", "loss.svg", "adapter.gguf"
RESERVE = ".reserve"
NAMES = (RUN, METRICS, PLOT, ADAPTER, RESERVE)


def check_free(document: RunDocument) -> None:
    """Refuse a run folder that holds something already, unless ``output.overwrite`` is set.

    Raises:
        ConfigError: the folder is not empty, is no folder, or holds the adapter to continue from.
    """
    folder, adapter = document.output.folder, document.model.adapter
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigError("output", "the run folder is a folder", folder, "choose another name")
        if not folder.is_dir() or not any(folder.iterdir()):
            return
    except (OSError, ValueError) as error:
        rule, got = "the run folder can be looked at", f"{folder}: {reason(error)}"
        raise ConfigError("output", rule, got, "choose another output.dir or name") from error
    if not document.output.overwrite:
        remedy = "choose another output.name, or set output.overwrite = true"
        raise ConfigError("output", "a run folder is new or empty", folder, remedy)
    if adapter is not None and adapter.resolve() == (folder / ADAPTER).resolve():
        rule = "the adapter to continue from does not lie in the run folder that is replaced"
        raise ConfigError("output", rule, adapter, "choose another output.name")


class RunFolder:
    """The files of one run; metrics are flushed line by line.

    Args:
        path: the folder; made if it is not there. The files of an earlier run are removed, others
            are left alone.

    Raises:
        ConfigError: the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name in NAMES:
                (path / name).unlink(missing_ok=True)
            # Without a buffer: a line that does not fit cannot stay behind and fail once more.
            self._metrics = (path / METRICS).open("ab", buffering=0)
        except (OSError, ValueError) as error:
            got = f"{path}: {reason(error)}"
            rule, remedy = "the run folder can be written", "choose another output.dir"
            raise ConfigError("output", rule, got, remedy) from error

    @property
    def adapter(self) -> Path:
        """Where the adapter goes."""
        return self.path / ADAPTER

    @property
    def plot(self) -> Path:
        """Where the loss curve goes."""
        return self.path / PLOT

    @contextmanager
    def written(self) -> Generator[None]:
        """Around what writes to the folder: an error of the system becomes one of ours.

        Raises:
            ConfigError: the folder cannot be written any more.
        """
        try:
            yield
        except OSError as error:
            rule, got = "the run folder can be written", f"{self.path}: {reason(error)}"
            remedy = "free space on its disk, or choose another output.dir"
            raise ConfigError("output", rule, got, remedy) from error

    def reserve(self, n_bytes: int) -> None:
        """Takes the disk space that the end of the run needs, so that it is there then.

        Raises:
            ConfigError: the disk has no such room.
        """
        with self.written(), (self.path / RESERVE).open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.write(bytes(n_bytes))

    def release(self) -> None:
        """Gives back what was reserved."""
        with self.written():
            (self.path / RESERVE).unlink(missing_ok=True)

    def metric(self, values: Mapping[str, object]) -> None:
        """Append one line to metrics.jsonl.

        Raises:
            ConfigError: the folder cannot be written any more.
        """
        line = memoryview((json.dumps(values, allow_nan=False) + "\n").encode())
        start = self._metrics.tell()
        with self.written():
            try:
                while line:
                    line = line[self._metrics.write(line) :]
            except OSError:
                self._metrics.truncate(start)  # half a line would spoil the file for its readers
                raise

    def record(self, values: Mapping[str, object]) -> None:
        """Write run.json, whole or not at all.

        Raises:
            ConfigError: the folder cannot be written any more.
        """
        with self.written(), replace_file(self.path / RUN) as fresh:
            text = json.dumps(values, indent=2, allow_nan=False)
            fresh.write_text(text + "\n", encoding="utf-8")

    def close(self) -> None:
        """Close metrics.jsonl and give back what is still reserved."""
        self._metrics.close()
        self.release()


def reason(error: Exception) -> str:
    """What the operating system says of a path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
