"""What a run leaves behind for other programs."""

from retrograd.export.adapter import Adapter as Adapter
from retrograd.export.adapter import Factors as Factors
from retrograd.export.adapter import read_adapter as read_adapter
from retrograd.export.adapter import write_adapter as write_adapter

__all__ = ["Adapter", "Factors", "read_adapter", "write_adapter"]
