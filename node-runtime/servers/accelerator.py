"""The device of a model server on PyTorch. The node sets HEARTH_DEVICE to `cuda` for a server that it placed on a GPU."""

from __future__ import annotations

import os
import sys

import torch

# The exit status of a server that cannot use the GPU that it was placed on (README.md).
NO_GPU_STATUS = 69


def is_on_gpu() -> bool:
    """Returns whether the server computes on a GPU. Ends the server if it was placed on one that PyTorch
    cannot use: on the processor it would answer many times slower, and nobody would know why."""
    if torch.cuda.is_available():
        return True
    if os.environ.get("HEARTH_DEVICE") == "cuda":
        print(f"it was placed on a GPU that it cannot use: {_cuda_fault()}", file=sys.stderr, flush=True)
        sys.exit(NO_GPU_STATUS)
    return False


def _cuda_fault() -> str:
    try:
        torch.cuda.init()
    except Exception as error:  # An AssertionError without CUDA in the build, a RuntimeError of the driver.
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return "the driver lists no device"
