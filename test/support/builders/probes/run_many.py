"""Runs Python programs in sequence in one process, because their libraries take seconds to import: `python run_many.py
'[["program.py", "argument"], ...]'`."""

from __future__ import annotations

import json
import runpy
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

sys.path.append(str(Path(__file__).parents[4] / "node-runtime" / "servers"))

with ExitStack() as stack:
    # Without the compiler, which no program here uses, transformers takes a fifth less time to import.
    if find_spec("torch"):
        from light_torch import without_compiler, without_quantization

        stack.enter_context(without_compiler())
        stack.enter_context(without_quantization())
    for command in json.loads(sys.argv[1]):
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
