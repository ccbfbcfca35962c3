"""What was observed.

Cases, comparator, measured bounds and the lanes that hold the product against the oracles.
"""
