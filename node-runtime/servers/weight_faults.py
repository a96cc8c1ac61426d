"""Distinguishes errors in a model's files from errors of the machine, for servers on PyTorch."""

from __future__ import annotations

import re

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

# Words that indicate an error of the machine or its environment, whatever the error's type.
_MACHINE = re.compile(
    r"\b(gpus?|cuda|xpu|npu|devices?|memory|drivers?|disk|installed|requires?|os error)\b", re.IGNORECASE
)
# Tensor names, as safetensors files and their readers spell them. Any other missing key may be from one of
# Python's own tables.
_TENSOR = re.compile(r"^[\w-]+(\.[\w-]+)*\.\w*(weight|bias|scale|zero)\w*$")
MAX_REASON = 300


def is_fault_of_weights(error: BaseException) -> bool:
    """Returns whether a load failed because of the model's files. When in doubt, the answer is no, and the
    load is retried.
    """
    if _MACHINE.search(str(error)) or _comes_from_import(error):
        return False
    if isinstance(error, KeyError):
        return bool(error.args) and _TENSOR.match(str(error.args[0])) is not None
    if isinstance(error, RuntimeError):
        return "size mismatch" in str(error) or "ignore_mismatched_sizes" in str(error)
    if isinstance(error, OSError):
        # The library raises an OSError without a number when a file is missing or not JSON; errors
        # of the machine have one.
        return error.errno is None
    return isinstance(error, (ValueError, SafetensorError, StrictDataclassError))


def _comes_from_import(error: BaseException) -> bool:
    """Returns whether a module's body raised the error. transformers imports most of its parts during a load,
    but never code from the model's folder.
    """
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        # Python hides its own import frames, so only the module's frames remain.
        if code.co_name == "<module>" and not code.co_filename.startswith("<"):
            return True
        step = step.tb_next
    return False


def reason_of(error: BaseException) -> str:
    """Returns an error's first line, for the message with which a server refuses its weights."""
    [why, *_] = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {why[:MAX_REASON]}"
