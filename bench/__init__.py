"""Measurements of speed and memory beside peers; ``nox -s bench -- cpu`` starts one by name."""
