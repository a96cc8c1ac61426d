"""Chooses the next token of each row of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .options import Sampling

if TYPE_CHECKING:
    from transformers import GenerationConfig

# The number of likeliest tokens that are sorted for top_p. A full sort of a vocabulary takes 15 ms on a CPU, so it
# runs only if these tokens don't reach top_p.
SORTED_TOKENS = 1024
# Dividing logits by a lower temperature overflows.
MIN_TEMPERATURE = 1e-6


class NotFinite(RuntimeError):
    """The model's numbers are not finite, or no token is allowed."""


class Sampler:
    """One row's sampling options and random numbers, which don't depend on other rows. Options that the caller
    omits default to the values of the model's authors.
    """

    def __init__(self, sampling: Sampling, defaults: GenerationConfig, device: torch.device) -> None:
        draws = bool(getattr(defaults, "do_sample", False))

        def setting(given: float | None, name: str, fallback: float) -> float:
            own = getattr(defaults, name, None) if draws else None
            return given if given is not None else own if own is not None else fallback

        self.temperature = setting(sampling.temperature, "temperature", 1.0)
        self.top_p = setting(sampling.top_p, "top_p", 1.0)
        self.top_k = int(setting(sampling.top_k, "top_k", 0))
        self._presence, self._frequency = sampling.presence_penalty, sampling.frequency_penalty
        self._seen: dict[int, int] = {}
        self._random = torch.Generator(device=device)
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed & 0xFFFF_FFFF)

    def penalize(self, logits: torch.Tensor) -> None:
        """Lowers the logits of tokens that the response already contains."""
        if (self._presence or self._frequency) and self._seen:
            tokens = torch.tensor(list(self._seen), device=logits.device)
            counts = torch.tensor(list(self._seen.values()), device=logits.device)
            logits[tokens] -= self._presence + self._frequency * counts

    def fill_noise(self, noise: torch.Tensor) -> None:
        """Draws the random numbers for one token."""
        noise.exponential_(1, generator=self._random)

    def record(self, token: int) -> None:
        """Counts a chosen token for the penalties."""
        self._seen[token] = self._seen.get(token, 0) + 1


def choose(logits: torch.Tensor, samplers: list[Sampler]) -> list[int | NotFinite]:
    """Returns the next token of each row, or the error of a row that has none. Changes the logits."""
    for row, sampler in enumerate(samplers):
        sampler.penalize(logits[row])
    best = logits.max(-1)
    tokens, is_usable = best.indices, best.values.isfinite()
    drawing = [row for row, sampler in enumerate(samplers) if sampler.temperature >= MIN_TEMPERATURE]
    if drawing:
        rows = torch.tensor(drawing, device=logits.device)
        # A row without usable numbers must not raise an error for the others.
        usable = torch.where(is_usable[rows, None], logits[rows], 0.0)
        tokens = tokens.index_put((rows,), _draw(usable, [samplers[row] for row in drawing]))
    chosen = torch.where(is_usable, tokens, -1).tolist()
    for sampler, token in zip(samplers, chosen, strict=True):
        sampler.record(token)
    return [token if token >= 0 else NotFinite("the model's numbers are not finite") for token in chosen]


def _draw(logits: torch.Tensor, samplers: list[Sampler]) -> torch.Tensor:
    logits = logits / _column([sampler.temperature for sampler in samplers], logits)
    size = logits.shape[-1]
    top_k = [sampler.top_k if 0 < sampler.top_k < size else 0 for sampler in samplers]
    if any(top_k):
        ranked = logits.topk(max(top_k)).values
        last = torch.tensor([max(k, 1) - 1 for k in top_k], device=logits.device)[:, None]
        floor = ranked.gather(-1, last).masked_fill(_column(top_k, logits) == 0, -torch.inf)
        logits = logits.masked_fill(logits < floor, -torch.inf)
    shares = logits.softmax(-1)
    if any(sampler.top_p < 1 for sampler in samplers):
        shares = _within_top_p(shares, _column([sampler.top_p for sampler in samplers], shares))
    # Dividing by exponential noise and taking the largest is how torch.multinomial draws one token. Each row needs its
    # own random numbers, so that its seed gives the same ones in any batch.
    noise = torch.empty_like(shares)
    for row, sampler in enumerate(samplers):
        sampler.fill_noise(noise[row])
    return (shares / noise).argmax(-1)


def _within_top_p(shares: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Sets to zero the shares after the first token that reaches top_p."""
    size = shares.shape[-1]
    ordered, order = shares.topk(min(SORTED_TOKENS, size))
    if size > SORTED_TOKENS and bool(((ordered.sum(-1, keepdim=True) <= top_p) & (top_p < 1)).any()):
        ordered, order = shares.sort(descending=True)
    kept = ordered.masked_fill(ordered.cumsum(-1) - ordered > top_p, 0)
    return torch.where(top_p < 1, torch.zeros_like(shares).scatter(-1, order, kept), shares)


def _column(numbers: list[float] | list[int], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(numbers, dtype=like.dtype, device=like.device)[:, None]
