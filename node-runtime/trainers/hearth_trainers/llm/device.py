"""The accelerator of this process."""

from __future__ import annotations

import os

import torch

from ..errors import NodeFault


def device_kind() -> str:
    """Returns `cuda`, `xpu` or `cpu`."""
    if torch.cuda.is_available():
        return "cuda"
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        return "xpu"
    return "cpu"


def own_device(gpus: int = 0) -> torch.device:
    """Returns the device of this process; accelerators have one process each. Raises `NodeFault` if `gpus`
    are reserved and PyTorch finds no CUDA device: the run would take days on the CPU, for no visible reason.
    """
    kind = device_kind()
    if gpus > 0 and kind != "cuda":
        raise NodeFault(
            f"This run was placed on a GPU, but PyTorch cannot use it ({cuda_fault()}). Training did not fall "
            "back to the CPU. Run `npx hearth doctor` to see what is wrong with the node, and check its NVIDIA driver.",
            code="no_cuda",
        )
    return torch.device(kind) if kind == "cpu" else torch.device(kind, int(os.environ.get("LOCAL_RANK", "0")))


def cuda_fault() -> str:
    """Returns a one-line reason why PyTorch finds no CUDA device."""
    try:
        torch.cuda.init()
    except Exception as error:  # An AssertionError if the build lacks CUDA, a RuntimeError from the driver.
        [why, *_] = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {why[:200].rstrip('.')}"
    return "the driver lists no device"


def peak_memory_mb(device: torch.device) -> int:
    """Returns the peak memory of this process: on the accelerator if there is one, otherwise in RAM."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) >> 20
    if device.type == "xpu":
        return torch.xpu.max_memory_allocated(device) >> 20
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> (20 if sys.platform == "darwin" else 10)
