"""The tasks that a text model can serve, with their inputs and results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from answers import InputProblem
from specialist.batching import Batcher
from specialist.engine import Engine, padded
from specialist.fields import count_of, list_of, paths_of, refuse_cut, text_of, texts_of, truncates
from specialist.layout import Layout
from specialist.numbers import checked, pool, sigmoid, softmax, unit
from specialist.texts import Text, Tokenization, Tokens

Task = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

# Inputs longer than this are tokenized in a thread, so that small requests do not wait for them.
INLINE_CHARACTERS = 20_000
# A classifier's label with one of these names means harmless text, so it is not a moderation category.
HARMLESS = frozenset({"ok", "safe", "neutral", "normal", "none", "clean", "benign", "harmless", "label_0"})
NEGATIONS = ("non", "not", "no ", "no_", "no-")
FLAGGED_FROM = 0.5


class TextModel:
    """A model that turns texts into numbers, with the tasks that it can serve."""

    def __init__(self, layout: Layout, tokenization: Tokenization, engine: Engine) -> None:
        self._layout = layout
        self._tokenization = tokenization
        self._engine = engine
        self._padding = int(layout.config.get("pad_token_id") or 0)
        self._width = len(layout.labels) if layout.has_head else None
        self._batcher = Batcher(self._forward, engine.limits)
        self._skipped = {
            name: 0 if layout.pooling.has_prompt else tokenization.prompt_tokens(text)
            for name, text in layout.prompts.items()
        }
        self.tasks: dict[str, Task] = (
            {"embeddings": self._embed}
            if not layout.has_head
            else {"rerank": self._rerank}
            if layout.ranks
            else {"classification": self._classify, "moderation": self._moderate}
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the health check reports about the model."""
        return {"tasks": list(self.tasks), "max_tokens": self._tokenization.max_tokens}

    def _forward(self, texts: Sequence[Tokens]) -> list[Any]:
        output = self._engine.run(*padded(texts, self._padding))
        rows = list(output) if self._layout.has_head else pool(output, texts, self._layout.pooling)
        return [checked(row, self._width) for row in rows]

    async def _numbers(
        self, texts: Sequence[Text], paths: Sequence[str], body: Mapping[str, Any], skipped: int = 0
    ) -> _Numbers:
        is_cut_allowed = truncates(body)
        tokens = await self._tokens(texts)
        if not is_cut_allowed:
            refuse_cut(tokens, paths, self._tokenization.max_tokens)
        for one in tokens:
            one.skipped = skipped
        return _Numbers(await self._batcher.run(tokens), tokens)

    async def _tokens(self, texts: Sequence[Text]) -> list[Tokens]:
        size = sum(len(text) if isinstance(text, str) else len(text[0]) + len(text[1]) for text in texts)
        if size <= INLINE_CHARACTERS:
            return self._tokenization.encode(texts)
        return await asyncio.to_thread(self._tokenization.encode, texts)

    def _prompt(self, body: Mapping[str, Any]) -> str | None:
        name = body.get("prompt_name", self._layout.default_prompt)
        if name is None or (isinstance(name, str) and name in self._layout.prompts):
            return name
        known = ", ".join(self._layout.prompts) or "none"
        raise InputProblem(f"prompt_name must be one of the model's prompts: {known}", "/prompt_name")

    async def _embed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        texts, is_one = texts_of(body, "text")
        dimensions = count_of(body, "dimensions")
        name = self._prompt(body)
        prompt, skipped = ("", 0) if name is None else (self._layout.prompts[name], self._skipped[name])
        paths = paths_of("text", len(texts), is_one=is_one)
        found = await self._numbers([prompt + text for text in texts], paths, body, skipped)
        vectors = [self._cut(vector, dimensions) for vector in found.rows]
        answer = {"embedding": vectors[0]} if is_one else {"embeddings": vectors}
        return {**answer, **found.facts}

    def _cut(self, vector: np.ndarray, size: int | None) -> np.ndarray:
        if size is None or size == len(vector):
            return vector
        allowed = self._layout.dimensions
        if size > len(vector) or not (allowed is True or (allowed and size in allowed)):
            sizes = (
                "any up to" if allowed is True else ", ".join(map(str, allowed or ())) + " or" if allowed else "only"
            )
            raise InputProblem(
                f"dimensions must be a size that this model supports: {sizes} {len(vector)}", "/dimensions"
            )
        cut = vector[:size]
        return unit(cut) if self._layout.pooling.normalizes else cut

    async def _rerank(self, body: Mapping[str, Any]) -> dict[str, Any]:
        query = text_of(body, "query")
        documents = list_of(body.get("documents"), "documents")
        top = count_of(body, "top_n")
        pairs = [(query, document) for document in documents]
        found = await self._numbers(pairs, paths_of("documents", len(pairs), is_one=False), body)
        scores = sigmoid(np.concatenate(found.rows)).tolist()
        answer: dict[str, Any] = {"scores": scores}
        if top is not None:
            best = sorted(range(len(scores)), key=lambda index: -scores[index])[:top]
            answer["results"] = [{"index": index, "score": scores[index]} for index in best]
        return {**answer, **found.facts}

    async def _classify(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._label(body, self._classified)

    async def _moderate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._label(body, self._moderated)

    async def _label(self, body: Mapping[str, Any], present: Callable[[np.ndarray], dict[str, Any]]) -> dict[str, Any]:
        texts, is_one = texts_of(body, "text")
        found = await self._numbers(texts, paths_of("text", len(texts), is_one=is_one), body)
        results = [present(self._probabilities(row)) for row in found.rows]
        return {**(results[0] if is_one else {"results": results}), **found.facts}

    def _probabilities(self, logits: np.ndarray) -> np.ndarray:
        return sigmoid(logits) if self._layout.is_multi_label else softmax(logits)

    def _classified(self, scores: np.ndarray) -> dict[str, Any]:
        labels = self._layout.labels
        return {"label": labels[int(scores.argmax())], "scores": dict(zip(labels, scores.tolist(), strict=True))}

    def _moderated(self, scores: np.ndarray) -> dict[str, Any]:
        labels = self._layout.labels
        best = labels[int(scores.argmax())]
        excludes = not self._layout.is_multi_label and any(map(_is_harmless, labels))
        harmful = {
            label: score for label, score in zip(labels, scores.tolist(), strict=True) if not _is_harmless(label)
        }
        # Mutually exclusive classes have one winner; other classes are independent.
        categories = {label: label == best if excludes else score >= FLAGGED_FROM for label, score in harmful.items()}
        return {"flagged": any(categories.values()), "categories": categories, "scores": harmful}


class _Numbers:
    """The model's output for each text in a request, plus the remaining fields of the result."""

    def __init__(self, rows: list[np.ndarray], tokens: Sequence[Tokens]) -> None:
        self.rows = rows
        total = sum(map(len, tokens))
        is_cut = any(one.is_cut for one in tokens)
        self.facts = {
            "usage": {"prompt_tokens": total, "total_tokens": total},
            **({"truncated": True} if is_cut else {}),
        }


def _is_harmless(label: str) -> bool:
    name = label.strip().lower()
    return name in HARMLESS or name.startswith(NEGATIONS)
