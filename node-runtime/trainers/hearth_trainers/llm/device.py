"""The accelerator of this process."""

from __future__ import annotations

import os

import torch


def device_kind() -> str:
    """Returns `cuda`, `xpu` or `cpu`."""
    if torch.cuda.is_available():
        return "cuda"
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        return "xpu"
    return "cpu"


def own_device() -> torch.device:
    """Returns the device of this process; accelerators have one process each."""
    kind = device_kind()
    return torch.device(kind) if kind == "cpu" else torch.device(kind, int(os.environ.get("LOCAL_RANK", "0")))


def peak_memory_mb(device: torch.device) -> int:
    """Returns the peak memory of this process: on the accelerator, otherwise in RAM."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) >> 20
    if device.type == "xpu":
        return torch.xpu.max_memory_allocated(device) >> 20
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> (20 if sys.platform == "darwin" else 10)
