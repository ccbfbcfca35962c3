"""Model families: one file each, one line each below; a model is recognised from metadata alone."""

from retrograd.errors import GgufError
from retrograd.families import llama, qwen2, qwen3
from retrograd.families.family import Family as Family
from retrograd.families.family import ModelConfig as ModelConfig
from retrograd.families.family import read_config as read_config
from retrograd.gguf import GgufFile

FAMILIES = {module.FAMILY.architecture: module.FAMILY for module in (llama, qwen2, qwen3)}


def recognise(file: GgufFile) -> Family:
    """The family of a file.

    Raises:
        GgufError: the architecture has no family here; the message lists those that do.
    """
    name = file.require("general.architecture", str)
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise GgufError(
            "gguf",
            f"the architecture is one of: {known}",
            name,
            "use a model of a listed architecture",
        )
    return FAMILIES[name]
