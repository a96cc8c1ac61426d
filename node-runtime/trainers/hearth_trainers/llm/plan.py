"""Selects the rows of each optimizer step, as a pure function of the seed and the step, so that a resumed run
draws the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from .settings import LoopSettings

# The number of optimizer steps within which rows are grouped by length.
_WINDOW_STEPS = 50


class Plan:
    """All steps of a run over rows of these lengths. `world` processes share each step."""

    def __init__(self, lengths: Sequence[int], settings: LoopSettings, *, by_length: bool, world: int = 1) -> None:
        self._lengths = lengths
        self._settings = settings
        self._by_length = by_length
        self._world = world
        micro = -(-len(lengths) // settings.micro_batch_size)
        self.steps_per_epoch = -(-micro // self._micro_per_step)
        self.total_steps = settings.max_steps or settings.epochs * self.steps_per_epoch
        self.epochs = -(-self.total_steps // self.steps_per_epoch)
        self._order = lru_cache(maxsize=2)(self._draw_order)

    @property
    def _micro_per_step(self) -> int:
        return self._settings.gradient_accumulation_steps * self._world

    def step(self, step: int, rank: int = 0) -> tuple[list[tuple[list[int], bool]], list[int]]:
        """Returns one process's micro-batches in optimizer step `step` (from 0): their row numbers, and
        whether each counts. Also returns the rows of all processes.
        """
        epoch, offset = divmod(step, self.steps_per_epoch)
        order = self._order(epoch)
        chosen = order[offset * self._micro_per_step : (offset + 1) * self._micro_per_step]
        batches = [(rows, True) for rows in chosen[rank :: self._world]]
        # Every process takes part in every gradient exchange, if necessary with a batch that doesn't count.
        if len(batches) < -(-len(chosen) // self._world):
            batches.append((chosen[0], False))
        return batches, [row for rows in chosen for row in rows]

    def _draw_order(self, epoch: int) -> list[list[int]]:
        rng = np.random.default_rng([self._settings.seed, 1, epoch])
        order = rng.permutation(len(self._lengths)).tolist()
        size = self._settings.micro_batch_size
        if not self._by_length:
            return [order[at : at + size] for at in range(0, len(order), size)]
        window = _WINDOW_STEPS * self._micro_per_step * size
        micro = []
        for at in range(0, len(order), window):
            near = sorted(order[at : at + window], key=lambda row: -self._lengths[row])
            micro += [near[start : start + size] for start in range(0, len(near), size)]
        mixed = [micro[index] for index in rng.permutation(len(micro))]
        if epoch == 0:
            # The longest rows come first, so that a run that would run out of memory fails at the start.
            longest = max(range(len(mixed)), key=lambda index: self._lengths[mixed[index][0]])
            mixed.insert(0, mixed.pop(longest))
        return mixed
