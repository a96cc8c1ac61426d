"""Selects the rows of each optimizer step, as a pure function of the seed and the step, so that a
resumed run draws the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from .render import IGNORED, Example
from .settings import Settings

# Rows are grouped by length within so many optimizer steps at a time.
_WINDOW_STEPS = 50


@dataclass(frozen=True)
class Batch:
    """Padded rows. `targets` is the number of tokens that are trained on."""

    ids: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor
    targets: int


class Plan:
    """All batches of a run. `world` processes share each step."""

    def __init__(self, examples: list[Example], settings: Settings, *, pad_id: int, world: int = 1) -> None:
        self._examples = examples
        self._settings = settings
        self._pad_id = pad_id
        self._world = world
        micro = -(-len(examples) // settings.micro_batch_size)
        self.steps_per_epoch = -(-micro // self._micro_per_step)
        self.total_steps = settings.max_steps or settings.epochs * self.steps_per_epoch
        self.epochs = -(-self.total_steps // self.steps_per_epoch)
        self._order = lru_cache(maxsize=2)(self._draw_order)

    @property
    def _micro_per_step(self) -> int:
        return self._settings.gradient_accumulation_steps * self._world

    def step(self, step: int, rank: int = 0) -> tuple[list[Batch], int]:
        """Returns the micro-batches of one process in optimizer step `step` (from 0), and the
        number of targets of all processes."""
        epoch, offset = divmod(step, self.steps_per_epoch)
        order = self._order(epoch)
        chosen = order[offset * self._micro_per_step : (offset + 1) * self._micro_per_step]
        targets = sum(_targets(self._examples[index]) for micro in chosen for index in micro)
        mine = [self.collate(micro) for micro in chosen[rank :: self._world]]
        # Every process takes part in every gradient exchange, if necessary with
        # a batch without targets.
        rounds = -(-len(chosen) // self._world)
        if len(mine) < rounds:
            mine.append(_mute(self.collate(chosen[0])))
        return mine, targets

    def collate(self, indices: list[int]) -> Batch:
        """Returns rows padded on the right to the longest of them, or to sequence_len."""
        examples = [self._examples[index] for index in indices]
        width = max(len(one.ids) for one in examples)
        if self._settings.pad_to_sequence_len:
            width = max(width, self._settings.sequence_len)
        shape = (len(examples), width)
        ids = torch.full(shape, self._pad_id)
        mask = torch.zeros(shape, dtype=torch.long)
        labels = torch.full(shape, IGNORED)
        for row, one in enumerate(examples):
            ids[row, : len(one.ids)] = torch.tensor(one.ids)
            mask[row, : len(one.ids)] = 1
            labels[row, : len(one.labels)] = torch.tensor(one.labels)
        return Batch(ids, mask, labels, sum(_targets(one) for one in examples))

    def _draw_order(self, epoch: int) -> list[list[int]]:
        settings = self._settings
        rng = np.random.default_rng([settings.seed, 1, epoch])
        order = rng.permutation(len(self._examples)).tolist()
        size = settings.micro_batch_size
        if not settings.group_by_length:
            return [order[at : at + size] for at in range(0, len(order), size)]
        window = _WINDOW_STEPS * self._micro_per_step * size
        micro = []
        for at in range(0, len(order), window):
            near = sorted(order[at : at + window], key=lambda index: -len(self._examples[index].ids))
            micro += [near[start : start + size] for start in range(0, len(near), size)]
        mixed = [micro[index] for index in rng.permutation(len(micro))]
        if epoch == 0:
            # The longest rows come first, so that a lack of memory shows at the start.
            longest = max(range(len(mixed)), key=lambda index: len(self._examples[mixed[index][0]].ids))
            mixed.insert(0, mixed.pop(longest))
        return mixed


def _targets(example: Example) -> int:
    return sum(label != IGNORED for label in example.labels[1:])


def _mute(batch: Batch) -> Batch:
    return Batch(batch.ids, batch.mask, torch.full_like(batch.labels, IGNORED), 0)
