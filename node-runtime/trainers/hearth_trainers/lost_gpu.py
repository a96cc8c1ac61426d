"""Finds out whether this process can still use its GPU. Has few imports, because model servers load it too."""

from __future__ import annotations

import sys

_MAX_REASON = 200


def lost_gpu(device: int = 0) -> str | None:
    """Returns the error of a GPU that this process can no longer use, on one line; None if the GPU still
    works.

    CUDA repeats a kernel or hardware error on every later call of the process, so one more call proves the
    loss. After a transient error, such as a lack of memory, that call succeeds.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        torch.cuda.synchronize(device)
    except Exception as error:
        text = " ".join(str(error).split())
        # Starting CUDA on a full GPU fails as well, until other programs have freed memory.
        return None if "out of memory" in text else f"{type(error).__name__}: {text[:_MAX_REASON]}"
    return None
