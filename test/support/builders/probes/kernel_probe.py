"""Runs Liger's kernels on the CPU, in Triton's interpreter."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast


def kernels(request: dict[str, Any]) -> Any:
    """Returns why kernels cannot be used, whether they are in the model, whether the loss is fused, and the relative
    differences of the loss and all gradients from those without kernels. With `broken`, kernels fail when they run.
    """
    import torch

    from hearth_trainers.llm.kernels import use_kernels
    from hearth_trainers.llm.token_loss import TokenLoss
    from loss_probe import gradients, relative, tiny_model

    device = torch.device("cpu")
    ids = torch.arange(3, 27).reshape(1, 24)
    log = io.TextIOWrapper(io.BytesIO())
    found, has_kernels, is_fused, fault = [], [], [], None
    with contextlib.ExitStack() as stack:
        if not request["broken"]:
            stack.enter_context(_interpreter())
        with contextlib.redirect_stdout(log):
            for uses_liger in (False, True):
                model = tiny_model(request["family"], "lora").train()
                if uses_liger and (fault := use_kernels(model, device, ids[0].tolist())):
                    # As the trainer does, continues with a model that was loaded again.
                    model, uses_liger = tiny_model(request["family"], "lora").train(), False
                loss = TokenLoss(model, device, ids[0].tolist(), uses_liger=uses_liger)
                summed = loss(model, {"input_ids": ids}, ids)
                has_kernels.append(any("liger" in type(node).__name__.lower() for node in _graph(model, ids)))
                is_fused.append("Fused" in type(summed.grad_fn).__name__)
                found.append((summed.detach(), gradients(model, summed)))
    (plain_loss, plain_gradients), (loss, all_gradients) = found
    return {
        "fault": fault,
        "kernels": has_kernels,
        "fused": is_fused,
        "loss": relative(loss, plain_loss),
        "gradients": relative(all_gradients, plain_gradients),
    }


def choice(request: dict[str, Any]) -> Any:
    """Returns whether a run uses kernels, and its log, after a checkpoint with `liger`; null means no checkpoint."""
    import torch

    from hearth_trainers.llm import kernels
    from loss_probe import tiny_model

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if request["liger"] is not None:
            checkpoint = Path(folder) / "checkpoint.zip"
            with zipfile.ZipFile(checkpoint, "w") as archive:
                archive.writestr("state.json", json.dumps({"liger": request["liger"]} if request["liger"] else {}))
        names = ("is_available", "use_kernels", "load_model")
        original = {name: getattr(kernels, name) for name in names}
        kernels.is_available = lambda _device: request["available"]
        kernels.use_kernels = lambda *_arguments: request["fault"]
        kernels.load_model = lambda *_arguments: tiny_model("llama", "lora")
        log, settings = io.TextIOWrapper(io.BytesIO()), cast(Any, None)
        try:
            with contextlib.redirect_stdout(log):
                _, uses_liger = kernels.load_with_kernels(
                    Path(folder), settings, torch.device("cpu"), sample=[1, 2, 3], checkpoint=checkpoint
                )
        finally:
            for name, value in original.items():
                setattr(kernels, name, value)
        log.seek(0)
        lines = [json.loads(line) for line in log if line.startswith("{")]
    return {"uses": uses_liger, "log": [[one["level"], one["message"]] for one in lines]}


@contextlib.contextmanager
def _interpreter() -> Iterator[None]:
    """Adds what Triton's interpreter lacks: floats with the methods that they have in compiled kernels, and functions
    of CUDA's libdevice.
    """
    import liger_kernel.ops.cross_entropy
    import liger_kernel.ops.geglu
    import liger_kernel.ops.rms_norm
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    convert = interpreter._implicit_cvt

    def converted(value: Any) -> Any:
        if isinstance(value, float):
            return tl.tensor(interpreter.TensorHandle(np.array([value], dtype=np.float32), tl.float32), tl.float32)
        return convert(value)

    def tanh(value: Any) -> Any:
        return 2 / (1 + tl.exp(-2 * value)) - 1

    interpreter._implicit_cvt = converted
    liger_kernel.ops.rms_norm.rsqrt = lambda value: 1 / tl.sqrt(value)
    liger_kernel.ops.geglu.tanh = liger_kernel.ops.cross_entropy.tanh = tanh
    try:
        yield
    finally:
        interpreter._implicit_cvt = convert


def _graph(model: Any, ids: Any) -> list[Any]:
    seen, waiting = [], [model(input_ids=ids).logits.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.append(node)
            waiting += [one for one, _ in node.next_functions]
    return seen
