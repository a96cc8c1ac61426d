"""Counts what rows lose in tokenization, and warns about it."""

from __future__ import annotations

from typing import Any

from ..datasets.left_out import all_but, describe_left_out
from ..protocol import warn_about_data
from ..wording import counted
from .messages import CHAT_COLUMNS
from .rows import Row
from .settings import Settings

_MEMBER = "member "
_MAX_MEMBERS = 20
_USED = "chat rows are learned whole, with the role, text, name, reasoning and tool calls of each message"


class Notes:
    """The number of rows with each kind of loss, and the first such row, from 1."""

    def __init__(self, found: dict[str, list[int]] | None = None) -> None:
        self.found = found or {}

    def add(self, kind: str, row: int) -> None:
        """Counts a row."""
        self.found.setdefault(kind, [0, row])[0] += 1

    def add_member(self, name: str, row: int) -> None:
        """Counts a row with a message member that is not learned. Callers choose the names, so only the first
        few are noted.
        """
        kind = _MEMBER + name[:60]
        if kind in self.found or sum(known.startswith(_MEMBER) for known in self.found) < _MAX_MEMBERS:
            self.add(kind, row)

    def report(self, settings: Settings, max_positions: int) -> None:
        """Warns about every kind of loss."""
        is_alpaca = settings.dataset_type == "alpaca"
        learnt = {"alpaca": "output", "text": settings.text_column}.get(settings.dataset_type, "")
        limit = (
            f"the model reads no more than {max_positions:,}"
            if max_positions < settings.sequence_len
            else f"sequence_len is {settings.sequence_len:,}"
        )
        part = "the beginning of the prompt" if is_alpaca else "the end"
        lost = "is lost, because the chat template of the base model leaves it out"
        messages = {
            "empty": f"Left out {{}} with an empty '{learnt}'",
            "cut": f"Cut {part} of {{}}, because {limit} tokens",
            "long_output": (
                f"{{}} are longer than sequence_len ({settings.sequence_len:,} tokens) and take more memory: "
                "outputs stay whole"
            ),
            "cut_answer": (
                f"Cut the end of the output in {{}}, because the model reads no more than {max_positions:,} tokens"
            ),
            "tools": "The tools of {} are lost, because the base model's chat template doesn't support tools",
            "system": f"The system text of {{}} {lost}; write it at the beginning of the first user message",
            "reasoning": (
                f"Reasoning in {{}} {lost}; choose a base model whose template shows it, even in earlier messages"
            ),
            "beside_calls": f"Text next to tool calls in {{}} {lost}; write it as a separate assistant message",
            "unused_system": (
                "The column 'system' of {} is not used, because their messages have a different system message; "
                "write both in one"
            ),
        }
        for kind, (count, row) in self.found.items():
            rows = counted(count, "row")
            if kind.startswith(_MEMBER):
                what = f"Messages of {rows} have '{kind.removeprefix(_MEMBER)}', which is not used: {_USED}"
            else:
                what = messages[kind].format(rows)
            warn_about_data(f"{what}; the first is row {row}.", count=count, row=row)


def report_columns(rows: list[Row], settings: Settings) -> list[dict[str, str]]:
    """Names the columns that rows of this type do not have, as they appear in the run's metrics."""
    used = {"alpaca": ("instruction", "input", "output"), "chat": CHAT_COLUMNS, "text": (settings.text_column,)}
    names: dict[str, Any] = {name: None for row in rows[:1000] for name in row}
    kind = settings.dataset_type
    return describe_left_out(all_but(list(names), used[kind], f"{kind} rows don't use it"))
