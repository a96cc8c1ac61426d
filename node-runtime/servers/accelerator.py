"""The device of a PyTorch model server. The node sets HEARTH_DEVICE to `cuda` for a server that it placed on
a GPU.
"""

from __future__ import annotations

import torch

from gpu_loss import is_placed_on_gpu, refuse_gpu


def is_on_gpu() -> bool:
    """Returns whether the server runs on a GPU. Ends the server if it was placed on one that PyTorch cannot
    use: on the CPU it would be many times slower, for no visible reason.
    """
    if torch.cuda.is_available():
        return True
    if is_placed_on_gpu():
        refuse_gpu(_cuda_fault())
    return False


def _cuda_fault() -> str:
    try:
        torch.cuda.init()
    except Exception as error:  # An AssertionError if the build lacks CUDA, a RuntimeError from the driver.
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return "the driver lists no device"
