"""Cases of every op: which sizes, which settings, and how the inputs of a direction are made."""
