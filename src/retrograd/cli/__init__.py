"""The command line: one file per command; what a command needs is imported when it runs."""

from retrograd.cli.app import main as main
