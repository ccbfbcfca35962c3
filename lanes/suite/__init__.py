"""One lane a file."""
