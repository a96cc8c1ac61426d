"""The objective of causal language models: predict each target token from the tokens before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from ..protocol import log, warn
from ..wording import counted
from .dataset import Dataset
from .packing import can_pack, pack_rows, restarting_positions
from .plan import Plan
from .process_group import ProcessGroup
from .render import IGNORED, Example
from .settings import Settings
from .token_loss import TokenLoss


@dataclass(frozen=True)
class TokenBatch:
    """Padded rows. `inputs` has their tokens, and either a mask or, for packed rows, positions."""

    inputs: dict[str, torch.Tensor]
    labels: torch.Tensor
    # The number of tokens, without padding.
    tokens: int
    # The number of tokens that are trained on.
    targets: int


class NextToken:
    """See `Objective`."""

    def __init__(
        self,
        data: Dataset,
        settings: Settings,
        *,
        model: Any,
        pad_id: int,
        max_positions: int,
        device: torch.device,
        world: int,
        uses_liger: bool = False,
    ) -> None:
        self._check = data.check
        self._settings = settings
        self._pad_id = pad_id
        # Even padding must have a position, and some models mask attention only up to their last position.
        self._limit = min(settings.sequence_len, max_positions)
        self._token_loss = TokenLoss(model, device, data.learn[0].ids, uses_liger=uses_liger)
        self._is_packed = settings.packing and len(data.learn) > 1 and self._can_pack(model, device, data.learn)
        # The samples of each row: several if rows are packed, otherwise one.
        self._rows = [[one] for one in data.learn]
        if self._is_packed:
            groups = pack_rows([len(one.ids) for one in data.learn], self._limit, settings.seed)
            self._rows = [[data.learn[number] for number in group] for group in groups]
            rows = counted(len(data.learn), "row")
            log(f"Packed {rows} into {len(groups):,} of at most {self._limit:,} tokens.")
        lengths = [sum(len(one.ids) for one in row) for row in self._rows]
        self.plan = Plan(lengths, settings, by_length=settings.group_by_length, world=world)

    def _can_pack(self, model: Any, device: torch.device, learn: list[Example]) -> bool:
        batch_size = min(2, self._settings.micro_batch_size)
        if can_pack(model, device, (learn[0].ids, learn[1].ids), limit=self._limit, batch_size=batch_size):
            return True
        warn("Rows are not packed, because this model cannot keep packed rows apart.")
        return False

    def step(self, step: int, rank: int) -> tuple[list[TokenBatch], int]:
        """See `Objective`."""
        batches, rows = self.plan.step(step, rank)
        batches = [
            self._collate([self._rows[row] if counts else [_muted(one) for one in self._rows[row]] for row in chosen])
            for chosen, counts in batches
        ]
        return batches, sum(_targets(one) for row in rows for one in self._rows[row])

    def loss(self, model: Any, batch: TokenBatch) -> torch.Tensor:
        """See `Objective`. Only the logits of tokens that are trained on are computed."""
        return self._token_loss(model, batch.inputs, batch.labels)

    def validate(self, model: Any, group: ProcessGroup) -> float | None:
        """See `Objective`."""
        check, size = self._check, self._settings.micro_batch_size
        if not check:
            return None
        total, targets = 0.0, 0
        for start in list(range(0, len(check), size))[group.rank :: group.world_size]:
            batch = self._collate([[one] for one in check[start : start + size]])
            total += float(self.loss(model, batch))
            targets += batch.targets
        total, targets = group.reduce_sum(total, targets)
        return total / targets if targets else None

    def measures(self, loss: float) -> dict[str, float]:
        """See `Objective`. An infinite perplexity is reported as missing."""
        return {"eval_perplexity": math.exp(loss) if loss < 700 else math.inf}

    def _collate(self, rows: list[list[Example]]) -> TokenBatch:
        """Returns rows padded on the right to the length of the longest one, or to the longest possible row."""
        lengths = [[len(one.ids) for one in row] for row in rows]
        width = max(map(sum, lengths))
        if self._settings.pad_to_sequence_len:
            width = max(width, self._limit)
        shape = (len(rows), width)
        ids = torch.full(shape, self._pad_id)
        mask = torch.zeros(shape, dtype=torch.long)
        labels = torch.full(shape, IGNORED)
        for number, row in enumerate(rows):
            end = sum(lengths[number])
            ids[number, :end] = torch.tensor([token for one in row for token in one.ids])
            mask[number, :end] = 1
            # No token comes before the first one of a sample.
            labels[number, :end] = torch.tensor([label for one in row for label in (IGNORED, *one.labels[1:])])
        if self._is_packed:
            apart = {"position_ids": torch.stack([restarting_positions(row, width) for row in lengths])}
        else:
            apart = {"attention_mask": mask}
        targets = sum(_targets(one) for row in rows for one in row)
        return TokenBatch({"input_ids": ids, **apart}, labels, int(mask.sum()), targets)


def _targets(example: Example) -> int:
    return sum(label != IGNORED for label in example.labels[1:])


def _muted(example: Example) -> Example:
    return Example(example.ids, [IGNORED] * len(example.labels))
