"""The run folder: run.json, metrics.jsonl, loss.svg and adapter.gguf."""

import json
from collections.abc import Mapping
from pathlib import Path

from retrograd.config.options import RunDocument
from retrograd.errors import ConfigError
from retrograd.gguf import replace_file

RUN, METRICS, PLOT, ADAPTER = "run.json", "metrics.jsonl", "loss.svg", "adapter.gguf"
NAMES = (RUN, METRICS, PLOT, ADAPTER)


def check_free(document: RunDocument) -> None:
    """Refuse a run folder that holds something already, unless ``output.overwrite`` is set.

    Raises:
        ConfigError: the folder is not empty, is no folder, or holds the adapter to continue from.
    """
    folder, adapter = document.output.folder, document.model.adapter
    if folder.exists() and not folder.is_dir():
        raise ConfigError("output", "the run folder is a folder", folder, "choose another name")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not document.output.overwrite:
        remedy = "choose another output.name, or set output.overwrite = true"
        raise ConfigError("output", "a run folder is new or empty", folder, remedy)
    if adapter is not None and adapter.resolve() == (folder / ADAPTER).resolve():
        rule = "the adapter to continue from does not lie in the run folder that is replaced"
        raise ConfigError("output", rule, adapter, "choose another output.name")


class RunFolder:
    """The files of one run; metrics are flushed line by line.

    Args:
        path: the folder; made if it is not there. The four files of an earlier run are removed,
            others are left alone.

    Raises:
        ConfigError: the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name in NAMES:
                (path / name).unlink(missing_ok=True)
            self._metrics = (path / METRICS).open("a", encoding="utf-8")
        except OSError as error:
            got = f"{path}: {error.strerror or error}"
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

    def metric(self, values: Mapping[str, object]) -> None:
        """Append one line to metrics.jsonl."""
        self._metrics.write(json.dumps(values, allow_nan=False) + "\n")
        self._metrics.flush()

    def record(self, values: Mapping[str, object]) -> None:
        """Write run.json, whole or not at all."""
        with replace_file(self.path / RUN) as fresh:
            text = json.dumps(values, indent=2, allow_nan=False)
            fresh.write_text(text + "\n", encoding="utf-8")

    def close(self) -> None:
        """Close metrics.jsonl."""
        self._metrics.close()
