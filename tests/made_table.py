"""Tables as the reduction writes them, for what reads them."""

from matrix.canonical import Json
from matrix.files import dump
from matrix.reduce import reduce
from tests.made_receipts import COMPLETE, OPS, current, declarations, receipts


def made_table() -> tuple[str, tuple[str, ...], set[str]]:
    """Text of the made-up project's table, its rows, and the ids of its cells."""
    given = receipts(*COMPLETE)
    table: Json = reduce(declarations(), given, current(), is_ancestor=lambda _: True).table
    return dump(table), OPS, {*table["capabilities"], *table["base_dtype"]}
