"""Splits text into words. The trainer and the model server use it, so it needs only the standard library."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

# The version of word splitting for new models. The first version reads a clause in a script without spaces as
# one word, and drops symbols and combining marks. Models of either version are served as they were trained.
WORDS_VERSION = 2
_WORD_1 = re.compile(r"\w+", re.UNICODE)
# Thai, Lao, Myanmar, Khmer, kana, ideographs. Beyond the second plane nothing else is assigned.
_WITHOUT_SPACES = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3041, 0x30FF), (0x31F0, 0x31FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0xF900, 0xFAFF), (0xFF66, 0xFF9F),
    (0x1AFF0, 0x1B16F),
)  # fmt: skip
_PLANES_OF_IDEOGRAPHS = "\U00020000-\U0003fffd"
_FLAG_LETTERS = "\U0001f1e6-\U0001f1ff"
# Joiners, soft hyphens, variation selectors and skin tones: the same word or emoji is written with and without them.
_UNSEEN = re.compile("[\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\ufeff\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]")


def words_of(text: str, longest: int, version: int = WORDS_VERSION) -> Iterator[str]:
    """Yields the words of a text in lower case, then its runs of 2 to `longest` words. In scripts without spaces each
    character is a word, and so is each emoji or symbol outside ASCII."""
    words = _WORD_1.findall(text.lower()) if version == 1 else _words(text)
    yield from words
    for length in range(2, longest + 1):
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])


def has_new_words(text: str) -> bool:
    """Returns whether a text's words differ from those of the first version, or its accents are written as
    separate marks, as on macOS and in many PDF files.
    """
    if text.isascii():
        return False
    return _words(text) != _WORD_1.findall(text.lower()) or unicodedata.normalize("NFD", text) != text


def _words(text: str) -> list[str]:
    lower = text.lower()
    if lower.isascii():
        return _WORD_1.findall(lower)
    return _WORD_2.findall(_UNSEEN.sub("", unicodedata.normalize("NFC", lower)))


def _word_pattern() -> re.Pattern[str]:
    categories = [(code, unicodedata.category(chr(code))) for code in range(0x80, 0x20000)]
    marks = [code for code, category in categories if category[0] == "M"]
    symbols = [code for code, category in categories if category in ("So", "Sc", "Sm")]
    alone = [code for first, last in _WITHOUT_SPACES for code in range(first, last + 1) if chr(code).isalnum()]
    mark, symbol = _ranges(marks), _ranges(symbols)
    single = _ranges(alone) + _PLANES_OF_IDEOGRAPHS
    letters = rf"[^\W{single}]"
    return re.compile(
        rf"{letters}+(?:[{mark}]+{letters}*)*|[{single}][{mark}]*|[{_FLAG_LETTERS}]{{2}}|[{symbol}]", re.UNICODE
    )


def _ranges(codes: Iterable[int]) -> str:
    """Returns ascending code points as the content of a regex character class."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


_WORD_2 = _word_pattern()
