"""Runs Python programs in sequence in one process, because their libraries take seconds to import: `python run_many.py
'[["program.py", "argument"], ...]'`."""

from __future__ import annotations

import json
import runpy
import sys

for command in json.loads(sys.argv[1]):
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")
