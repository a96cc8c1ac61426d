"""Packing: puts several short rows into one, so that fewer tokens of a batch are padding and small rows fill a GPU."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

# Each row is checked with this many tokens.
_CHECKED_TOKENS = 64
# Rounding differs between a row alone and a row behind another one, by at most this share of the other row's effect
# without packing.
_TOLERANCE = 0.2
# Behind two different rows of equal length, logits may differ by this share of the largest logit.
_NOISE = 1e-5


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
def can_pack(
    model: Any, device: torch.device, rows: tuple[list[int], list[int]], *, limit: int, batch_size: int
) -> bool:
    """Returns whether packed rows don't see each other in this model: a second row gets the same logits behind another
    row as alone, whatever that row's tokens are. Models with a recurrent state, with convolutions, or with attention
    biases instead of positions, fail. Some kernels keep packed rows apart only in batches of one. The model has
    positions for at least `limit` tokens.
    """
    first, second = (row[: min(_CHECKED_TOKENS, max(1, limit // 2))] for row in rows)
    # We change every token, because a convolution sees only the last few of the first row.
    changed = [token - 1 if token > 0 else 1 for token in first]

    def logits(*parts: list[int], restarts: bool = True) -> torch.Tensor:
        ids = torch.tensor([[token for part in parts for token in part]] * batch_size, device=device)
        more = {}
        if restarts:
            positions = restarting_positions([len(part) for part in parts], ids.shape[1])
            more["position_ids"] = positions.expand(batch_size, -1).to(device)
        found = model(input_ids=ids, use_cache=False, **more).logits
        return found[-1].float()

    was_training = model.training
    model.eval()
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu"):
            alone = logits(second, restarts=False)
            behind = logits(first, second, restarts=False)[len(first) :]
            packed, other = (logits(one, second)[len(first) :] for one in (first, changed))
            # No row sees a later one. The difference is rounding, e.g. by experts that also compute the later row.
            before = [logits(second, one)[: len(second)] for one in (first, changed)]
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False
    finally:
        model.train(was_training)
    noise = max(2 * _distance(*before), _NOISE * float(packed.abs().max()))
    return _distance(packed, other) <= noise and _distance(packed, alone) <= _TOLERANCE * _distance(behind, alone)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())
