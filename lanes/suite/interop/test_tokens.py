"""Token ids of awkward strings, against transformers and against llama.cpp."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lanes.suite.interop.ledger import Ledger
from retrograd import Trainer

if TYPE_CHECKING:
    from lanes.peers.transformers_tokens import TransformersTokens

STRINGS = Path(__file__).resolve().parents[3] / "tests" / "data" / "awkward_strings.json"


def awkward_strings() -> list[str]:
    strings: list[str] = json.loads(STRINGS.read_text(encoding="utf-8"))
    assert len(strings) >= 200
    return strings


def test_token_ids_are_those_of_transformers(
    base: Trainer, tokens: "TransformersTokens", ledger: Ledger
) -> None:
    strings = awkward_strings()
    differ = [text for text in strings if base.tokenize(text) != tokens.tokenize(text)]
    ledger.equal("tokens of transformers", differ, len(strings))


def test_token_ids_are_those_of_llama_cpp(base: Trainer, model: Path, ledger: Ledger) -> None:
    from lanes.peers.llama_cpp_model import LlamaCpp

    llama, strings = LlamaCpp(model), awkward_strings()
    differ = [text for text in strings if base.tokenize(text) != llama.tokenize(text)]
    llama.close()
    ledger.equal("tokens of llama.cpp", differ, len(strings))
