"""Prints the locations in the named files that Python 3.10 can't compile: newer syntax, and regular
expressions with possessive quantifiers or atomic groups.
"""

import ast
import re
import sys
import warnings
from pathlib import Path

NEWER = {"ATOMIC_GROUP", "POSSESSIVE_REPEAT"}


def needs_newer(pattern: str) -> bool:
    # Python 3.11 moved the parser here.
    parser = getattr(re, "_parser", None)
    if parser is None:
        try:
            re.compile(pattern)
        except re.error as error:
            return "multiple repeat" in str(error) or "unknown extension ?>" in str(error)
        return False
    try:
        return any(name in str(parser.parse(pattern)) for name in NEWER)
    except (re.error, OverflowError):
        return False


def text_of(node: ast.AST) -> str:
    """Returns the string, with an x in place of each f-string value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    value = node.value if isinstance(node, ast.Constant) else None
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else "x"


warnings.simplefilter("ignore")
for path in sys.argv[1:]:
    try:
        tree = ast.parse(Path(path).read_text("utf-8"), path, feature_version=(3, 10))
    except SyntaxError as error:
        print(f"{path}:{error.lineno}: {error.msg}")
        continue
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and needs_newer(text_of(node)):
            print(f"{path}:{node.lineno}: {ast.unparse(node)}")
