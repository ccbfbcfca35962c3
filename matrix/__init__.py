"""The table: what is declared, what receipts show of it, and the pages that say so.

Evidence flows one way through this package: :mod:`matrix.declared` reads the declarations,
:mod:`matrix.receipts` reads and checks receipts, :mod:`matrix.reduce` folds both into the table,
and :mod:`matrix.render` turns the table into pages. Nothing here runs a kernel.
"""
