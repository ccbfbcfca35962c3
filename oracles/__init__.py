"""What is true.

Definitions in float64 numpy and mpmath, written from papers and from the written conventions.

Nothing here imports the product. ``ops/<op>.py`` holds one function per direction, with keyword
arguments and results named as the fields of the argument struct, and a ``<direction>_magnitude``
function where errors are to be measured against the size of the terms instead of the size of their
sum. ``pinned/<op>.py`` replays a pinned row's stated order of float32 operations, for equality bit
by bit.
"""
