"""Converts texts to tokens, truncated to the model's maximum length."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.implementations import BertWordPieceTokenizer

from specialist.layout import BadModel, Layout

# Before tokenization, a text is cut to CHARACTERS for each token that the model accepts, and to WIDER times
# as many if that yields too few tokens.
CHARACTERS = 16
WIDER = 8
# The last tokens of a text that was cut within a word may differ from those of the whole text.
MARGIN = 32

# The library accepts 32-bit ids.
MAX_ID = 2**32 - 1

# One text, or a pair of them.
Text = str | tuple[str, str]


@dataclass(slots=True, eq=False)
class Tokens:
    """The tokens of one text."""

    ids: np.ndarray
    types: np.ndarray | None
    is_cut: bool
    # The number of leading tokens that do not count toward the text's vector.
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.ids)


class Tokenization:
    """The tokenizer of a model."""

    def __init__(self, layout: Layout, places: Sequence[Path]) -> None:
        self._tokenizer = _load(layout.folder, places)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(layout.max_tokens)
        self._lowercases = layout.lowercases
        self.max_tokens = layout.max_tokens
        self._padding = int(layout.config.get("pad_token_id") or 0)
        self._has_types = layout.has_types

    def encode(self, texts: Sequence[Text]) -> list[Tokens]:
        """Returns the tokens of each text, truncated to the model's maximum."""
        if self._lowercases:
            texts = [_each(text, str.lower) for text in texts]
        return self._encode(texts, CHARACTERS * self.max_tokens)

    def unknown(self, ids: Sequence[int]) -> int | None:
        """Returns the first id that isn't a token of this model. The library would omit it from the text."""
        return next((one for one in ids if one > MAX_ID or self._tokenizer.id_to_token(one) is None), None)

    def decode(self, ids: Sequence[int]) -> str:
        """Decodes tokens to text, without special tokens."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    def prompt_tokens(self, prompt: str) -> int:
        """Returns the number of tokens that this prompt takes up at the beginning of a text."""
        encoding = self._tokenizer.encode(prompt)
        return len(encoding) - (encoding.special_tokens_mask[-1] if len(encoding) else 0)

    def _encode(self, texts: Sequence[Text], window: int) -> list[Tokens]:
        windows = [_each(text, lambda part: part[:window]) for text in texts]
        found: list[Tokens] = []
        short: list[int] = []
        for index, encoding in enumerate(self._tokenizer.encode_batch_fast(windows)):
            rest = encoding.overflowing
            total = len(encoding) + sum(len(part) for part in rest)
            is_windowed = windows[index] != texts[index]
            if is_windowed and total < self.max_tokens + MARGIN:
                short.append(index)
            # A text may have no tokens at all, but a model needs at least one.
            ids = np.array(encoding.ids or [self._padding], dtype=np.int32)
            types = np.array(encoding.type_ids or [0], dtype=np.int8) if self._has_types else None
            found.append(Tokens(ids, types, is_windowed or bool(rest)))
        if short:
            wider = self._encode([texts[index] for index in short], window * WIDER)
            for index, tokens in zip(short, wider, strict=True):
                found[index] = tokens
        return found


def _each(text: Text, change) -> Text:
    return change(text) if isinstance(text, str) else (change(text[0]), change(text[1]))


def _load(folder: Path, places: Sequence[Path]) -> Tokenizer:
    for place in places:
        path = place / "tokenizer.json"
        if path.is_file():
            try:
                return Tokenizer.from_file(str(path))
            # The library raises a plain Exception for any file that it cannot read.
            except Exception:
                raise BadModel("its tokenizer.json cannot be read") from None
    words = folder / "vocab.txt"
    if not words.is_file():
        raise BadModel("its folder has neither a tokenizer.json nor a vocab.txt")
    settings = folder / "tokenizer_config.json"
    lowercases = (
        not settings.is_file() or json.loads(settings.read_text("utf8")).get("do_lower_case", True) is not False
    )
    return BertWordPieceTokenizer(str(words), lowercase=lowercases)._tokenizer
