"""Packing: puts several short rows into one, so that fewer tokens of a batch are padding and small rows fill a GPU."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

# Each row is checked with this many tokens.
_CHECKED_TOKENS = 64
# The share of another row's effect on the logits that may be rounding: bf16 has three digits.
_TOLERANCE = 0.2


def pack_rows(lengths: Sequence[int], limit: int, seed: int) -> list[list[int]]:
    """Returns row numbers grouped so that each group has at most `limit` tokens, except for single rows that are
    longer. Each row goes, longest first, into the fullest group that has room. The groups depend only on the seed.
    """
    order = np.random.default_rng([seed, 2]).permutation(len(lengths)).tolist()
    groups: list[list[int]] = []
    rooms: list[tuple[int, int]] = []
    for row in sorted(order, key=lambda one: -lengths[one]):
        at = bisect_left(rooms, (lengths[row], 0))
        if at < len(rooms):
            room, group = rooms.pop(at)
        else:
            room, group = limit, len(groups)
            groups.append([])
        groups[group].append(row)
        if (left := room - lengths[row]) > 0:
            insort(rooms, (left, group))
    return groups


def restarting_positions(lengths: Sequence[int], width: int) -> torch.Tensor:
    """Returns the positions of packed rows. They restart with every row and with the padding at the end; transformers
    masks the attention between such parts.
    """
    padding = width - sum(lengths)
    return torch.cat([torch.arange(length) for length in (*lengths, padding)])


@torch.no_grad()
def can_pack(model: Any, device: torch.device, rows: tuple[list[int], list[int]]) -> bool:
    """Returns whether packed rows don't see each other in this model: whether a second row gets the same logits behind
    another row as alone. Models with a recurrent state, or with attention biases instead of positions, fail.
    """
    first, second = (row[:_CHECKED_TOKENS] for row in rows)
    joined = torch.tensor([first + second], device=device)
    positions = restarting_positions([len(first), len(second)], joined.shape[1]).unsqueeze(0).to(device)
    was_training = model.training
    model.eval()
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu"):
            alone = model(input_ids=joined[:, len(first) :], use_cache=False).logits[0].float()
            behind, packed = (
                model(input_ids=joined, use_cache=False, **more).logits[0, len(first) :].float()
                for more in ({}, {"position_ids": positions})
            )
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False
    finally:
        model.train(was_training)
    return bool((packed - alone).abs().max() <= _TOLERANCE * (behind - alone).abs().max())
