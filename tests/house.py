"""What the house rules look at: the project's files, and the prose inside them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "src",
    "native",
    "oracles",
    "lanes",
    "matrix",
    "fixtures",
    "tests",
    "bench",
    "interop",
    "examples",
    "docs",
)
TOP_FILES = ("README.md", "CHANGELOG.md", "CMakeLists.txt", "noxfile.py", "pyproject.toml")
CODE = frozenset({".py", ".pyi", ".cpp", ".h", ".cu", ".cuh"})
TEXT = CODE | {".md", ".toml", ".txt", ".cmake", ".yml", ".yaml"}
_BUILT = frozenset({"__pycache__", "build"})
_CPP_COMMENT = re.compile(r"//(.*)$")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# What stands in backquotes, and single words in double quotes, is a name and not prose.
_QUOTED = re.compile(r"``[^`]+``|`[^`\n]+`|\"[\w-]+\"")


def files(suffixes: frozenset[str]) -> list[Path]:
    """The project's own files with these suffixes, in a fixed order."""
    found = [ROOT / name for name in TOP_FILES if (ROOT / name).exists()]
    for folder in FOLDERS:
        found += sorted(path for path in (ROOT / folder).rglob("*") if path.is_file())
    return [p for p in found if p.suffix in suffixes and not _BUILT & set(p.parts)]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that people read: comments, strings of several words, and text outside code spans."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in {".py", ".pyi"}:
        lines = _python_prose(text)
    elif path.suffix == ".md":
        lines = enumerate(_FENCE.sub(_blank, text).splitlines(), 1)
    elif path.suffix == ".toml" or path.name == "CMakeLists.txt":
        lines = ((n, line.partition("#")[2]) for n, line in enumerate(text.splitlines(), 1))
    else:
        matches = ((n, _CPP_COMMENT.search(line)) for n, line in enumerate(text.splitlines(), 1))
        lines = ((n, match[1]) for n, match in matches if match)
    for number, line in lines:
        yield number, _QUOTED.sub("", line)


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _python_prose(text: str) -> Iterator[tuple[int, str]]:
    kinds = {tokenize.COMMENT, tokenize.STRING}
    # From Python 3.12 on, the text of an f-string is a token of its own.
    kinds.add(getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds and " " in token.string:
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def dotted_names(path: Path) -> Iterator[tuple[int, str]]:
    """Every ``a.b.c`` in a Python file, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.lineno, ast.unparse(node)


def relative(path: Path) -> str:
    """The path as a reader of a failure wants it."""
    return str(path.relative_to(ROOT))
