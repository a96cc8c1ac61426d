"""The languages of translation models. A model reads a code before the text and another as the translation's
first token (M2M100, NLLB, mBART), or a mark in the text (some Marian models). Other models don't offer a
choice of language.
"""

from __future__ import annotations

import re
from typing import Any

from answers import InputProblem

# The codes of NLLB (`eng_Latn`) and mBART (`en_XX`) are special tokens in the tokenizer.
CODE = re.compile(r"^[a-z]{2,3}_[A-Za-z]{2,4}$")
MARK = re.compile(r"^>>(.+)<<$")
SHOWN = 8


class Languages:
    """The languages of one model."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._codes = _codes_of(tokenizer)
        self._marks = _marks_of(tokenizer) if not self._codes else {}
        self._source = getattr(tokenizer, "src_lang", None) if self._codes else None

    @property
    def first(self) -> str | None:
        """One of the languages, for the first request after a load; None if the model offers no choice."""
        return next(iter(self._codes or self._marks), None)

    def prepare(self, text: str, source: str | None, target: str | None) -> tuple[str, dict[str, int]]:
        """Returns the text for the tokenizer, and the options for `generate`. Sets the tokenizer's source
        language.
        """
        if self._codes:
            self._tokenizer.src_lang = self._known(source or self._source, "source_language", self._codes)
            first = self._codes[self._known(target, "target_language", self._codes)]
            return text, {"forced_bos_token_id": first}
        if self._marks:
            return f"{self._marks[self._known(target, 'target_language', self._marks)]} {text}", {}
        # A model for a single language pair offers no choice.
        return text, {}

    def _known(self, code: str | None, field: str, known: dict[str, Any]) -> str:
        if code in known:
            return code
        some = ", ".join(sorted(known)[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
        raise InputProblem(f"{field} must be one of the {len(known)} languages of this model: {some}", f"/{field}")


def _codes_of(tokenizer: Any) -> dict[str, int]:
    if hasattr(tokenizer, "get_lang_id"):
        return {code: tokenizer.get_lang_id(code) for code in tokenizer.lang_code_to_token}
    codes = filter(CODE.match, tokenizer.all_special_tokens)
    return {code: tokenizer.convert_tokens_to_ids(code) for code in codes}


def _marks_of(tokenizer: Any) -> dict[str, str]:
    marks = map(MARK.match, getattr(tokenizer, "supported_language_codes", None) or [])
    return {mark[1]: mark[0] for mark in marks if mark}
