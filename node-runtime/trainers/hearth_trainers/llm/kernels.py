"""Liger's kernels for NVIDIA GPUs. The node adds them to the path of a trainer (environment `kernels`); Triton compiles
them when they first run. Nothing here trusts them: their results are compared with those of PyTorch on each model.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ..protocol import log, warn
from .model import causal_model, load_model
from .render import IGNORED
from .settings import Settings
from .state import was_written_with_liger

# The share by which results in bf16 may differ.
TOLERANCE = 0.05
_CHECKED_TOKENS = 32
_CHECKED_VALUES = 1024

FusedLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def load_with_kernels(
    base: Path, settings: Settings, device: torch.device, *, sample: list[int], checkpoint: Path | None
) -> tuple[Any, bool]:
    """Loads the model, and returns whether it uses Liger's kernels. A resumed run keeps to the kernels of its
    checkpoint, because others round differently.
    """
    model = load_model(base, settings, device)
    written_with_liger = was_written_with_liger(checkpoint)
    uses_liger = False
    if written_with_liger is False and is_available(device):
        log("The checkpoint was written without Liger's GPU kernels, so the run continues without them.")
    elif is_available(device):
        fault = use_kernels(model, device, sample)
        if fault is None:
            log("Training uses Liger's GPU kernels.")
            uses_liger = True
        else:
            warn(f"Liger's GPU kernels cannot train this model ({fault}); training uses plain PyTorch.")
            del model
            gc.collect()
            model = load_model(base, settings, device)
    if written_with_liger and not uses_liger:
        warn(
            "The checkpoint was written with Liger's GPU kernels, which this attempt cannot use. "
            "The result will differ slightly from that of an uninterrupted run."
        )
    return model, uses_liger


def is_available(device: torch.device) -> bool:
    """Returns whether the packages are on the path and the device can run them."""
    return device.type == "cuda" and find_spec("liger_kernel") is not None


def use_kernels(model: Any, device: torch.device, sample: list[int]) -> str | None:
    """Replaces the model's normalization, rotation and activation with kernels. Returns None, or why they cannot be
    used; the model is then broken, but models that are loaded later are not.
    """
    whole = causal_model(model)
    code = sys.modules[type(whole).__module__]
    plain = dict(vars(code))
    try:
        from liger_kernel.transformers import monkey_patch

        if whole.config.model_type not in monkey_patch.MODEL_TYPE_TO_APPLY_LIGER_FN:
            # The loss is still fused.
            return None
        expected = _results(model, device, sample)
        monkey_patch._apply_liger_kernel_to_instance(whole, cross_entropy=False, fused_linear_cross_entropy=False)
        # Liger also replaces the classes of layers, but the base that is loaded for the result stays on the CPU.
        vars(code).update({name: one for name, one in plain.items() if isinstance(one, type)})
        if all(map(are_close, _results(model, device, sample), expected)):
            return None
        fault = "their results differ"
    except Exception as error:  # Triton raises errors of many kinds if it cannot compile.
        fault = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    vars(code).update(plain)
    return fault


def fused_loss(head: Any, softcap: float | None) -> FusedLoss:
    """Returns a function for the summed loss of hidden states, which computes and uses the logits in one kernel."""
    from liger_kernel.transformers.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyLoss

    loss = LigerFusedLinearCrossEntropyLoss(ignore_index=IGNORED, reduction="sum", softcap=softcap)
    return lambda hidden, targets: loss(head.weight, hidden, targets, getattr(head, "bias", None))


def are_close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Returns whether two results differ only by rounding in bf16."""
    return bool((found - expected).norm() <= TOLERANCE * expected.norm())


def _results(model: Any, device: torch.device, sample: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the logits of a text and some values of every gradient."""
    was_training = model.training
    model.eval()
    ids = torch.tensor([sample[:_CHECKED_TOKENS]], device=device)
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu"):
            logits = model(input_ids=ids, use_cache=False).logits
        logits.float().logsumexp(-1).sum().backward()
        gradients = [one.grad.flatten()[:_CHECKED_VALUES].float() for one in model.parameters() if one.grad is not None]
        return logits.detach().float(), torch.cat(gradients)
    finally:
        model.zero_grad(set_to_none=True)
        model.train(was_training)
