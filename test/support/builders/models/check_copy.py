"""Copies a folder and runs a program on the copy: `python check_copy.py FROM TO PROGRAM ARGUMENTS`."""

from __future__ import annotations

import runpy
import shutil
import sys

_, origin, target, program, *arguments = sys.argv
shutil.copytree(origin, target, dirs_exist_ok=True)
sys.argv = [program, *arguments]
runpy.run_path(program, run_name="__main__")
