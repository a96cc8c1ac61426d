"""The objective of causal language models: predict each target token from the tokens before it."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from .dataset import Dataset
from .plan import Plan
from .process_group import ProcessGroup
from .render import IGNORED, Example
from .settings import Settings


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
        self._device = device
        self._keeps_logits = "logits_to_keep" in inspect.signature(_inner(model).forward).parameters
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
        """Returns the sum of the losses of all tokens that are trained on. Only their logits are
        computed where the model allows it."""
        wanted = batch.labels[:, 1:]
        places = (wanted != IGNORED).any(dim=0).nonzero().flatten()
        inputs: dict[str, Any] = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if len(places) == 0:
            places = torch.zeros(1, dtype=torch.long)
        if self._keeps_logits:
            inputs["logits_to_keep"] = places
        inputs = {name: one.to(self._device, non_blocking=True) for name, one in inputs.items()}
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type != "cpu"):
            logits = model(**inputs, use_cache=False).logits
        if not self._keeps_logits:
            logits = logits[:, places]
        targets = wanted[:, places].to(self._device, non_blocking=True)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")

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


def _inner(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model
