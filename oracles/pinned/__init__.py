"""Replays of pinned rows: the stated order of float32 operations, one IEEE rounding each, in numpy.

A pinned row must equal its replay bit by bit on any input. numpy's float32 +, -, *, / and sqrt
round once, to nearest even, and keep subnormals; nothing here sums with numpy, whose order is its
own.
"""
