"""One oracle per op."""
