"""Replaces itself with a program that finds the CUDA libraries of this environment.

The CUDA build of llama.cpp is an npm package without CUDA's own libraries, and the loader reads their path only when a
program starts.
"""

import os
import sys
import sysconfig
from pathlib import Path


def main() -> None:
    """Runs `with_cuda.py PROGRAM [ARGUMENT ...]`."""
    packages = Path(sysconfig.get_path("purelib"))
    folders = [str(path) for path in sorted(packages.glob("nvidia/*/lib"))]
    inherited = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = ":".join([*folders, *([inherited] if inherited else [])])
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
