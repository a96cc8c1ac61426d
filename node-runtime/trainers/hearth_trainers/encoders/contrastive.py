"""The objective of embeddings: a text is closer to its positive than to everything else in its batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from specialist.layout import Pooling
from specialist.texts import Tokens

from ..llm.plan import Plan
from ..llm.process_group import ProcessGroup
from ..llm.settings import LoopSettings
from .base import Encoder
from .pairs import Pair, Pairs


@dataclass(frozen=True)
class PairBatch:
    """Rows whose texts go through the model at once: the anchors, then the candidates (all positives, then
    all negatives). If `counts` is false, the batch adds nothing to the loss.
    """

    texts: list[Tokens]
    rows: int
    # True where a candidate is not a negative for an anchor, because it also belongs to that anchor.
    ignored: torch.Tensor
    counts: bool

    @property
    def tokens(self) -> int:
        """The number of tokens, without padding."""
        return sum(map(len, self.texts))


class MultipleNegatives:
    """See `Objective`. The loss is Multiple Negatives Ranking (Henderson et al., "Efficient Natural Language
    Response Suggestion for Smart Reply", 2017): cross entropy over the scaled cosines of an anchor with all
    candidates of its batch."""

    def __init__(
        self, encoder: Encoder, pairs: Pairs, settings: LoopSettings, *, scale: float, device: torch.device, world: int
    ) -> None:
        self._encoder = encoder
        self._tokens = encoder.tokens_of(pairs.texts)
        encoder.warn_about_cut(self._tokens, pairs.rows)
        self._pairs = pairs
        self._size = settings.micro_batch_size
        self._scale = scale
        self._device = device
        lengths = [len(self._tokens[one.anchor]) + len(self._tokens[one.positive]) for one in pairs.learn]
        # Rows of similar length would be poor negatives for each other, so batches are drawn purely at
        # random.
        self.plan = Plan(lengths, settings, by_length=False, world=world)

    def step(self, step: int, rank: int) -> tuple[list[PairBatch], int]:
        """See `Objective`."""
        batches, rows = self.plan.step(step, rank)
        learn = self._pairs.learn
        return [self._collate([learn[row] for row in chosen], counts) for chosen, counts in batches], len(rows)

    def loss(self, model: Any, batch: PairBatch) -> torch.Tensor:
        """See `Objective`."""
        vectors = self._vectors(model, batch.texts)
        scores = self._scale * vectors[: batch.rows] @ vectors[batch.rows :].T
        scores = scores.masked_fill(batch.ignored.to(self._device), float("-inf"))
        found = F.cross_entropy(scores, torch.arange(batch.rows, device=self._device), reduction="sum")
        return found if batch.counts else found * 0

    def validate(self, model: Any, group: ProcessGroup) -> float | None:
        """See `Objective`."""
        check = self._pairs.check
        if not check:
            return None
        total = 0.0
        for start in list(range(0, len(check), self._size))[group.rank :: group.world_size]:
            total += float(self.loss(model, self._collate(check[start : start + self._size], counts=True)))
        return group.reduce_sum(total)[0] / len(check)

    def measures(self, loss: float) -> dict[str, float]:
        """See `Objective`."""
        return {}

    @torch.no_grad()
    def embed(self, model: Any, texts: list[int]) -> torch.Tensor:
        """Returns the vectors of texts, given by their indices, with length 1."""
        model.eval()
        parts = [
            self._vectors(model, [self._tokens[text] for text in texts[start : start + self._size]])
            for start in range(0, len(texts), self._size)
        ]
        return torch.cat(parts).cpu()

    def _vectors(self, model: Any, texts: list[Tokens]) -> torch.Tensor:
        inputs = self._encoder.inputs_of(texts, self._device)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type != "cpu"):
            hidden = model(**inputs).last_hidden_state
        skipped = texts[0].skipped
        return F.normalize(
            pool(hidden.float(), inputs["attention_mask"], self._encoder.layout.pooling, skipped), dim=-1
        )

    def _collate(self, rows: list[Pair], counts: bool) -> PairBatch:
        negatives = [one.negative for one in rows if one.negative is not None]
        candidates = [*(one.positive for one in rows), *negatives]
        numbers = [*(one.anchor for one in rows), *candidates]
        own: dict[int, set[int]] = {}
        for one in rows:
            own.setdefault(one.anchor, {one.anchor}).add(one.positive)
        ignored = torch.tensor([[candidate in own[one.anchor] for candidate in candidates] for one in rows])
        ignored[range(len(rows)), range(len(rows))] = False
        return PairBatch([self._tokens[number] for number in numbers], len(rows), ignored, counts)


def pool(hidden: torch.Tensor, mask: torch.Tensor, pooling: Pooling, skipped: int) -> torch.Tensor:
    """Returns one vector for each text, computed as on the server (`specialist.numbers.pool`)."""
    counted = mask.clone()
    counted[:, :skipped] = 0
    weights = counted.unsqueeze(-1).float()
    lengths = weights.sum(dim=1).clamp(min=1)
    parts = []
    for mode in pooling.modes:
        if mode == "cls":
            parts.append(hidden[:, 0])
        elif mode == "lasttoken":
            parts.append(hidden[torch.arange(len(hidden)), mask.sum(dim=1) - 1])
        elif mode == "max":
            parts.append(hidden.masked_fill(weights == 0, float("-inf")).amax(dim=1))
        else:
            divisor = lengths.sqrt() if mode == "mean_sqrt_len_tokens" else lengths
            parts.append((hidden * weights).sum(dim=1) / divisor)
    return torch.cat(parts, dim=-1)
