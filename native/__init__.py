"""What the native build runs: row tables and digests. Standard library only."""
