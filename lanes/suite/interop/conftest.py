"""What the interop lane shares: the real model, the peers, the ledger and its table."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lanes.suite.interop.ledger import Ledger
from retrograd import LoraOptions, Trainer, TrainingOptions

if TYPE_CHECKING:
    from lanes.peers.transformers_llama import Peer
    from lanes.peers.transformers_tokens import TransformersTokens

SEEDS_RECORDED, SEEDS_CHECKED = 8, 1
# A scale of 3: neither 1 nor the usual 2, so that a reader which takes a default is seen.
RANK, ALPHA = 8, 24.0
LEDGER = pytest.StashKey[Ledger]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--record``."""
    parser.addoption(
        "--record",
        action="store_true",
        help="measure the bounds of the interop lane and store them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Opens the ledger and keeps every peer off the network."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    config.stash[LEDGER] = Ledger(recording=bool(config.getoption("--record")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives ``seed`` its values: one to check, eight to record."""
    if "seed" in metafunc.fixturenames:
        recording = metafunc.config.stash[LEDGER].recording
        n_seeds = SEEDS_RECORDED if recording else SEEDS_CHECKED
        metafunc.parametrize("seed", range(n_seeds), scope="module")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Nothing compared is nothing verified."""
    ledger = session.config.stash[LEDGER]
    if exitstatus == 0 and not ledger.figures:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Prints the table; stores the bounds when they were measured and nothing failed."""
    ledger = config.stash[LEDGER]
    terminalreporter.section("interop figures")
    for figure in ledger.figures:
        line = f"{figure.verdict:<11} {figure.name:<36} n = {figure.n:<9} {figure.seen}"
        terminalreporter.write_line(line)
    if ledger.recording and exitstatus == 0:
        for line in ledger.record():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """The run's ledger."""
    return request.config.stash[LEDGER]


@pytest.fixture(scope="session")
def model() -> Path:
    """The verified real model."""
    from fixtures.real_model import fetch

    return fetch()


@pytest.fixture(scope="session")
def widened(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """The same weights stored as F32, on which llama.cpp rounds no activation."""
    from lanes.peers.widened import write_widened

    path = tmp_path_factory.mktemp("widened") / "model.gguf"
    write_widened(model, path)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def tokens(model: Path) -> "TransformersTokens":
    """The file's tokenizer in transformers."""
    from lanes.peers.transformers_tokens import TransformersTokens

    return TransformersTokens(model)


@pytest.fixture(scope="session")
def peer(model: Path) -> "Peer":
    """The model in transformers with a PEFT adapter, both in float64."""
    from lanes.peers.transformers_llama import attach_lora, load_float64

    return attach_lora(load_float64(model), rank=RANK, alpha=ALPHA)


@pytest.fixture(scope="session")
def base(model: Path) -> Trainer:
    """Our trainer without an adapter."""
    return Trainer(model)


@pytest.fixture(scope="session")
def adapted(model: Path) -> Trainer:
    """Our trainer with an adapter on every linear layer."""
    lora = LoraOptions(rank=RANK, alpha=ALPHA)
    return Trainer(model, lora=lora, training=TrainingOptions(micro_batch=4))
