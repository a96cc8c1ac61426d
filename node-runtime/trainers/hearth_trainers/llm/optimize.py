"""Optimizers and the schedule of the learning rate."""

from __future__ import annotations

import math
from typing import Any

import torch

from .settings import LoopSettings

# The cosine ends at this share of the peak.
_FLOOR = 0.1


def make_optimizer(parameters: list[torch.nn.Parameter], settings: LoopSettings, device: torch.device) -> Any:
    """Returns the requested AdamW; the 8-bit variants need a quarter of the
    memory for their moments."""
    if settings.optimizer == "adamw_torch":
        return torch.optim.AdamW(
            parameters, lr=settings.learning_rate, weight_decay=0.0, fused=device.type == "cuda" or None
        )
    from bitsandbytes.optim import AdamW8bit, PagedAdamW8bit

    kind = {"adamw_8bit": AdamW8bit, "paged_adamw_8bit": PagedAdamW8bit}[settings.optimizer]
    return kind(parameters, lr=settings.learning_rate, weight_decay=0.0)


def make_scheduler(optimizer: Any, settings: LoopSettings, total_steps: int) -> Any:
    """Returns the learning rate schedule."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, total_steps, settings))


def rate_at(step: int, total_steps: int, settings: LoopSettings) -> float:
    """Returns the share of the peak in step `step` (from 0)."""
    if settings.lr_scheduler == "constant":
        return 1.0
    warm_up = math.ceil(total_steps * settings.warmup_ratio)
    if step < warm_up:
        return (step + 1) / warm_up
    done = min(1.0, (step - warm_up) / max(1, total_steps - 1 - warm_up))
    return _FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * done))
