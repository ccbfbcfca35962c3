"""Training speed and peak memory on the CPU, beside transformers and PEFT, in one run.

    python -m bench.cpu [--pairs 7] [--steps 2] [--tokens 512] [--threads 2] [--model FILE]

Both sides do the same work on the same row of token ids: forward, backward, clipping and AdamW on a
LoRA of rank 8 on all linear layers of a quantized 135M-parameter model. Blocks alternate, ours and
theirs, after warm-up steps that count nowhere; a pair gives one ratio. Peak memory is each
process's high-water mark as the operating system kept it. Ratios of different runs are never
compared, and an interval that holds 1.00 is parity.
"""

import argparse
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench._protocol import BenchError, Block, Setting, Worker, environment
from bench._stamp import Load, checkout, load, machine

ROOT = Path(__file__).resolve().parent.parent
CLEARED = ("OPENBLAS_", "OMP_", "MKL_", "GOTO_", "KMP_", "RETRO_")
WARM_STEPS = 2
LEAST_PAIRS = 5
REQUIRED_SPEED, REQUIRED_MEMORY = 1.4, 0.45
MOST_IMPORT_S, MOST_HELP_S = 0.3, 0.6
STARTS = 5


@dataclass(frozen=True)
class Spread:
    """Median, least and most of several observations."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))

    def __format__(self, form: str) -> str:
        parts = (format(v, form) for v in (self.median, self.least, self.most))
        return "{} [{}, {}]".format(*parts)

    @property
    def is_parity(self) -> bool:
        return self.least <= 1.0 <= self.most


def main() -> int:
    """Prints the stamp, the pairs and the medians; 1 when a side did not do the work."""
    options = arguments()
    setting = Setting(str(options.model or fetched()), options.tokens, options.threads, seed=0)
    for line in (*machine(), f"sources: {checkout(ROOT)}"):
        print(line)
    try:
        measure(setting, options.pairs, options.steps)
        start_times()
    except BenchError as error:
        print(f"[bench] {error}", file=sys.stderr)
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=7, help=f"at least {LEAST_PAIRS}")
    parser.add_argument("--steps", type=int, default=2, help="training steps of a block")
    parser.add_argument("--tokens", type=int, default=512, help="length of the row")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, help="left out: the pinned model, fetched if needed")
    options = parser.parse_args()
    if options.pairs < LEAST_PAIRS or options.steps < 1:
        parser.error(f"--pairs is at least {LEAST_PAIRS} and --steps at least 1")
    return options


def fetched() -> Path:
    from fixtures.real_model import fetch

    return fetch()


def measure(setting: Setting, n_pairs: int, n_steps: int) -> None:
    """Runs the pairs and prints what they show."""
    variables = environment(setting.threads, ROOT, CLEARED)
    before, start = load(), time.monotonic()
    with (
        Worker("retrograd", setting, variables) as ours,
        Worker("transformers", setting, variables) as theirs,
    ):
        for worker in (ours, theirs):
            print(f"{worker.name}: {', '.join(f'{k} {v}' for k, v in worker.versions.items())}")
            worker.run(WARM_STEPS)
        print(f"{n_pairs} pairs of blocks of {n_steps} steps; {setting}")
        begin = load()
        wall = time.monotonic()
        print(f"{'pair':>4} {'ours tok/s':>11} {'theirs tok/s':>13} {'ratio':>6}")
        pairs: list[tuple[Block, Block]] = []
        for _ in range(n_pairs):
            pairs.append((ours.run(n_steps), theirs.run(n_steps)))
            a, b = (n_steps * setting.n_tokens / block.seconds for block in pairs[-1])
            print(f"{len(pairs):>4} {a:>11.1f} {b:>13.1f} {a / b:>6.2f}", flush=True)
        others = other_work(begin, load(), pairs, time.monotonic() - wall)
        for worker in (ours, theirs):
            worker.check()
    report(pairs, n_steps * setting.n_tokens)
    print(f"other work during the pairs: {others}")
    print(
        f"took {time.monotonic() - start:.0f} s, {load().stolen_s - before.stolen_s:.1f} s stolen"
    )


def report(pairs: Sequence[tuple[Block, Block]], n_tokens: int) -> None:
    """Prints the medians of the pairs against what is required."""
    speeds = [(n_tokens / a.seconds, n_tokens / b.seconds) for a, b in pairs]
    ours, theirs = Spread.of([a for a, _ in speeds]), Spread.of([b for _, b in speeds])
    ratio = Spread.of([a / b for a, b in speeds])
    print(f"tokens/s, median [min, max]: ours {ours:.1f}, theirs {theirs:.1f}")
    parity = ": parity" if ratio.is_parity else ""
    print(f"speed ratio: {ratio:.2f}{parity}; required at least {REQUIRED_SPEED}")
    peak, peer_peak = (max(b.peak_bytes for b in side) for side in zip(*pairs, strict=True))
    print(
        f"peak memory: ours {peak / 2**20:.0f} MiB, theirs {peer_peak / 2**20:.0f} MiB; "
        f"ratio {peak / peer_peak:.3f}; required at most {REQUIRED_MEMORY}"
    )
    print("an interval that holds 1.00 is parity; ratios of different runs are not compared")


def other_work(
    before: Load, after: Load, pairs: Sequence[tuple[Block, Block]], seconds: float
) -> str:
    """Processor time that neither side used, as a share of one core."""
    own = sum(block.processor_s for pair in pairs for block in pair)
    share = max(after.busy_s - before.busy_s - own, 0.0) / seconds
    return f"{share:.2f} cores" + ("" if share < 0.1 else "; the machine was not quiet")


def start_times() -> None:
    """Wall time of whole processes: the interpreter, the import, the command's help."""
    command = Path(sysconfig.get_path("scripts")) / "retrograd"
    if not command.exists():
        raise BenchError(f"the product is installed in this environment; got no {command}")
    bare = started(sys.executable, "-c", "pass")
    imported = started(sys.executable, "-c", "import retrograd")
    helped = started(str(command), "--help")
    print(f"an empty Python process: {bare:.3f} s")
    print(f"import retrograd: {imported:.3f} s; required under {MOST_IMPORT_S}")
    print(f"retrograd --help: {helped:.3f} s; required under {MOST_HELP_S}")


def started(*command: str) -> Spread:
    """Spread of a command's wall time, after one run that fills the file cache."""
    times: list[float] = []
    for _ in range(STARTS + 1):
        start = time.perf_counter()
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        times.append(time.perf_counter() - start)
        if result.returncode != 0:
            raise BenchError(f"{' '.join(command)} ends with 0; got {result.returncode}")
    return Spread.of(times[1:])


if __name__ == "__main__":
    sys.exit(main())
