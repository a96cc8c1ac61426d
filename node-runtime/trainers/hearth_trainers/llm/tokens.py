"""The objective of causal language models: predict each target token from the tokens before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from .dataset import Dataset
from .plan import Plan
from .process_group import ProcessGroup
from .render import IGNORED, Example
from .settings import Settings
from .token_loss import TokenLoss


@dataclass(frozen=True)
class TokenBatch:
    """Padded rows. `targets` is the number of tokens that are trained on."""

    ids: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor
    targets: int

    @property
    def tokens(self) -> int:
        """The number of tokens, without padding."""
        return int(self.mask.sum())


class NextToken:
    """See `Objective`."""

    def __init__(
        self, data: Dataset, settings: Settings, *, model: Any, pad_id: int, device: torch.device, world: int
    ) -> None:
        self._data = data
        self._settings = settings
        self._pad_id = pad_id
        self._token_loss = TokenLoss(model, device, data.learn[0].ids)
        lengths = [len(one.ids) for one in data.learn]
        self.plan = Plan(lengths, settings, by_length=settings.group_by_length, world=world)

    def step(self, step: int, rank: int) -> tuple[list[TokenBatch], int]:
        """See `Objective`."""
        batches, rows = self.plan.step(step, rank)
        learn = self._data.learn
        batches = [
            self._collate([learn[row] if counts else _muted(learn[row]) for row in chosen])
            for chosen, counts in batches
        ]
        return batches, sum(_targets(learn[row]) for row in rows)

    def loss(self, model: Any, batch: TokenBatch) -> torch.Tensor:
        """See `Objective`. Only the logits of tokens that are trained on are computed."""
        return self._token_loss(model, {"input_ids": batch.ids, "attention_mask": batch.mask}, batch.labels)

    def validate(self, model: Any, group: ProcessGroup) -> float | None:
        """See `Objective`."""
        check, size = self._data.check, self._settings.micro_batch_size
        if not check:
            return None
        total, targets = 0.0, 0
        for start in list(range(0, len(check), size))[group.rank :: group.world_size]:
            batch = self._collate(check[start : start + size])
            total += float(self.loss(model, batch))
            targets += batch.targets
        total, targets = group.reduce_sum(total, targets)
        return total / targets if targets else None

    def measures(self, loss: float) -> dict[str, float]:
        """See `Objective`. An infinite perplexity is reported as missing."""
        return {"eval_perplexity": math.exp(loss) if loss < 700 else math.inf}

    def _collate(self, examples: list[Example]) -> TokenBatch:
        """Returns rows padded on the right to the length of the longest one, or to sequence_len."""
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
        return TokenBatch(ids, mask, labels, sum(_targets(one) for one in examples))


def _targets(example: Example) -> int:
    return sum(label != IGNORED for label in example.labels[1:])


def _muted(example: Example) -> Example:
    return Example(example.ids, [IGNORED] * len(example.labels))
