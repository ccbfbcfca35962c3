"""Programs, buffers and launches; the only caller of admission."""

from retrograd.runtime.launch import launch as launch
from retrograd.runtime.program import Program as Program
from retrograd.runtime.program import rows_of as rows_of
from retrograd.runtime.store import Store as Store
