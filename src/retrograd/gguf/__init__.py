"""The GGUF container: reading with validation, and writing."""

from retrograd.gguf.file import GgufFile as GgufFile
from retrograd.gguf.file import open_gguf as open_gguf
from retrograd.gguf.metadata import Metadata as Metadata
from retrograd.gguf.metadata import MetadataValue as MetadataValue
from retrograd.gguf.metadata import require as require
from retrograd.gguf.metadata import require_list as require_list
from retrograd.gguf.tensors import TensorInfo as TensorInfo
from retrograd.gguf.write import TensorData as TensorData
from retrograd.gguf.write import replace_file as replace_file
from retrograd.gguf.write import write_gguf as write_gguf

__all__ = [
    "GgufFile",
    "Metadata",
    "MetadataValue",
    "TensorData",
    "TensorInfo",
    "open_gguf",
    "replace_file",
    "require",
    "require_list",
    "write_gguf",
]
