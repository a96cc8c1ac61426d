"""The objective of classifiers: the class of each text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from specialist.texts import Tokens

from ..labels import class_weights
from ..llm.plan import Plan
from ..llm.process_group import ProcessGroup
from ..llm.settings import LoopSettings
from .base import Encoder
from .texts import LabelledTexts


@dataclass(frozen=True)
class TextBatch:
    """Rows that go through the model at once. If `counts` is false, the batch adds nothing to the loss."""

    texts: list[Tokens]
    codes: torch.Tensor
    counts: bool

    @property
    def tokens(self) -> int:
        """The number of tokens, without padding."""
        return sum(map(len, self.texts))


class Classes:
    """See `Objective`. The loss is cross entropy, with a weight per class if the run requests it."""

    def __init__(
        self,
        encoder: Encoder,
        data: LabelledTexts,
        settings: LoopSettings,
        *,
        mode: str,
        device: torch.device,
        world: int,
    ) -> None:
        self._encoder = encoder
        self._tokens = encoder.tokens_of(data.texts)
        encoder.warn_about_cut(self._tokens, data.rows)
        self._codes = torch.from_numpy(data.labels.codes)
        self._data = data
        self._size = settings.micro_batch_size
        self._device = device
        weights = class_weights(data.labels, data.learn, mode)
        self._weights = None if weights is None else torch.tensor(weights, dtype=torch.float32, device=device)
        lengths = [len(self._tokens[row]) for row in data.learn]
        self.plan = Plan(lengths, settings, by_length=True, world=world)

    def step(self, step: int, rank: int) -> tuple[list[TextBatch], int]:
        """See `Objective`."""
        batches, rows = self.plan.step(step, rank)
        learn = self._data.learn
        return [self._collate(learn[chosen], counts) for chosen, counts in batches], len(rows)

    def loss(self, model: Any, batch: TextBatch) -> torch.Tensor:
        """See `Objective`."""
        logits = self._logits(model, batch.texts)
        found = F.cross_entropy(logits, batch.codes.to(self._device), weight=self._weights, reduction="sum")
        return found if batch.counts else found * 0

    def validate(self, model: Any, group: ProcessGroup) -> float | None:
        """See `Objective`."""
        check = self._data.check
        total = 0.0
        for start in list(range(0, len(check), self._size))[group.rank :: group.world_size]:
            total += float(self.loss(model, self._collate(check[start : start + self._size], counts=True)))
        return group.reduce_sum(total)[0] / len(check)

    def measures(self, loss: float) -> dict[str, float]:
        """See `Objective`."""
        return {}

    def probabilities(self, model: Any, rows: np.ndarray) -> np.ndarray:
        """Returns the probability of each class for the given rows."""
        return self._probabilities(model, self._texts(rows))

    def probabilities_of(self, model: Any, text: str) -> np.ndarray:
        """Returns the probability of each class for any text."""
        return self._probabilities(model, self._encoder.tokens_of([text]))[0]

    @torch.no_grad()
    def _probabilities(self, model: Any, texts: list[Tokens]) -> np.ndarray:
        model.eval()
        parts = [
            self._logits(model, texts[start : start + self._size]).softmax(dim=-1)
            for start in range(0, len(texts), self._size)
        ]
        return torch.cat(parts).cpu().double().numpy()

    def _logits(self, model: Any, texts: list[Tokens]) -> torch.Tensor:
        inputs = self._encoder.inputs_of(texts, self._device)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type != "cpu"):
            return model(**inputs).logits.float()

    def _texts(self, rows: np.ndarray) -> list[Tokens]:
        return [self._tokens[row] for row in rows]

    def _collate(self, rows: np.ndarray, counts: bool) -> TextBatch:
        return TextBatch(self._texts(rows), self._codes[rows], counts)
