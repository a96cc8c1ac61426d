"""Checks that rows of different lengths can share a forward pass of a model."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpu_loss import note_failure

from .lanes import Lane
from .model import LanguageModel

PROMPTS = ((5, 6, 7), (8,))
NEXT = 9
# The relative difference that rounding may cause. A model that ignores the mask or the positions differs far more.
TOLERANCE = {torch.float32: 1e-3}
COARSE_TOLERANCE = 0.05


@dataclass(eq=False)
class _Row:
    next: int
    computed: int


def can_pad(model: LanguageModel) -> bool | None:
    """Returns whether two rows of different lengths get the same logits together as one by one; None if there is no
    memory to find out. Some architectures derive positions from the length of the cache, or count them in their own
    way. This takes five small passes.
    """
    try:
        # The rows of the comparison are too short to show different rotary frequencies.
        return model.rope.can_share and _is_equal_together(model)
    except Exception as error:
        note_failure(error)
        return None if isinstance(error, torch.OutOfMemoryError) else False


def _is_equal_together(model: LanguageModel) -> bool:
    lane, alone = Lane(None), []
    for prompt in PROMPTS:
        cache = model.new_cache()
        model.forward({"input_ids": torch.tensor([prompt], device=model.device)}, cache)
        lane.join(_Row(NEXT, len(prompt)), cache)
        alone.append(model.forward({"input_ids": torch.tensor([[NEXT]], device=model.device)}, cache)[0])
    together = model.forward(lane.inputs(model.device), lane.cache)
    difference = (together - torch.stack(alone)).norm() / torch.stack(alone).norm()
    return bool(difference <= TOLERANCE.get(model.layout[0].dtype, COARSE_TOLERANCE))
