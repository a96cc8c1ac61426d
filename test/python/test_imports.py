"""Finds misspelled imports of our own modules, which Pyright reports in the same way as missing libraries."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOTS = [ROOT / "node-runtime" / name for name in ("evaluator", "processes", "servers", "trainers")]


def imports_of(path: Path) -> Iterator[tuple[list[Path], str]]:
    """Yields, for each imported module, the folders where it may be and its name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (([path.parent, *ROOTS], alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield [path.parents[node.level - 1]], node.module or ""
        elif isinstance(node, ast.ImportFrom):
            yield [path.parent, *ROOTS], node.module or ""


def is_module(folder: Path, name: str) -> bool:
    path = folder.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_every_module_of_ours_that_is_imported_exists() -> None:
    missing: list[str] = []
    for path in sorted(ROOT.glob("node-runtime/**/*.py")):
        for folders, module in imports_of(path):
            if module.split(".")[0] in sys.stdlib_module_names or any(is_module(one, module) for one in folders):
                continue
            # The first part shows whose module it is; relative imports are always ours.
            is_ours = any(is_module(one, module.split(".")[0]) for one in folders) or len(folders) == 1
            if is_ours:
                missing.append(f"{path.relative_to(ROOT)}: {module}")
    assert missing == []
