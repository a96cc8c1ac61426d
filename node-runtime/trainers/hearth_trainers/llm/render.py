"""Tokenizes rows by the rules of the dataset types, and marks the tokens to train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import JobError
from .rows import Row
from .settings import Settings

IGNORED = -100

# For tokenizers without a template. The model is trained with it, and it is saved with the model,
# so chats use the same one.
FALLBACK_TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}"
    "{{ '### ' + message['role'].capitalize() + ':\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}{{ '\\n\\n' }}"
    "{% else %}{{ message['content'] + '\\n\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### Assistant:\\n' }}{% endif %}"
)
_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}


@dataclass
class Example:
    """One row as tokens. `labels` holds the token itself where it is trained on,
    and `IGNORED` elsewhere."""

    ids: list[int]
    labels: list[int]


class Renderer:
    """Tokenizes rows of one dataset type for one tokenizer."""

    def __init__(self, tokenizer: Any, settings: Settings, max_positions: int) -> None:
        self._tokenizer = tokenizer
        self._settings = settings
        self._max_positions = max_positions
        self._limit = min(settings.sequence_len, max_positions)
        self.cut = 0
        self._render = {"alpaca": self._alpaca, "chat": self._chat, "text": self._text}[settings.dataset_type]

    def render(self, row: Row, number: int) -> Example:
        """Returns the tokens of row `number` (from 1); raises an error that names a row
        that cannot be trained on."""
        return self._render(row, number)

    def _alpaca(self, row: Row, number: int) -> Example:
        instruction, output = _text(row, "instruction", number), _text(row, "output", number)
        extra = row.get("input")
        if extra is not None and not isinstance(extra, str):
            raise _bad(number, "input", "is not text")
        asked = "\n\n".join(part for part in (instruction, extra or "") if part.strip())
        if not asked:
            raise _bad(number, "instruction", "is empty")
        if not output.strip():
            raise _bad(number, "output", "is empty")
        prompt, answer = self._split_turn([{"role": "user", "content": asked}], output)
        return self._fit_answer(self._ids(prompt), self._ids(answer))

    def _split_turn(self, asked: list[dict[str, Any]], output: str) -> tuple[str, str]:
        """Returns the prompt in the form that chats will have, and the answer with its end mark."""
        prompt = self._template(asked, ask=True)
        whole = self._template([*asked, {"role": "assistant", "content": output}])
        eos = self._tokenizer.eos_token or ""
        if not whole.startswith(prompt):
            # The template renders past turns differently from the turn that it prompts for.
            return prompt, output + eos
        answer = whole[len(prompt) :]
        if eos and answer.rstrip().endswith(eos):
            answer = answer.rstrip()
        return prompt, answer if answer.strip() != output.strip() else output + eos

    def _fit_answer(self, prompt: list[int], answer: list[int]) -> Example:
        """Truncates the beginning of the prompt and leaves the answer whole. At least one token of
        the prompt stays, which the answer's first token follows."""
        room = self._limit - len(answer)
        if len(prompt) > room:
            self.cut += 1
            prompt = prompt[-max(1, room) :]
        # A model cannot be trained on tokens beyond its last position.
        ids = (prompt + answer)[: self._max_positions]
        return Example(ids, ([IGNORED] * len(prompt) + answer)[: self._max_positions])

    def _chat(self, row: Row, number: int) -> Example:
        text = self._template(_messages(row, number))
        return self._whole(self._ids(text))

    def _text(self, row: Row, number: int) -> Example:
        text = _text(row, self._settings.text_column, number)
        if not text.strip():
            raise _bad(number, self._settings.text_column, "is empty")
        eos = self._tokenizer.eos_token_id
        ids = self._tokenizer(text)["input_ids"]
        if eos is not None and ids[-1] != eos:
            ids = [*ids, eos]
        return self._whole(ids)

    def _whole(self, ids: list[int]) -> Example:
        if len(ids) > self._limit:
            self.cut += 1
            ids = ids[: self._limit]
        return Example(ids, list(ids))

    def _template(self, messages: list[dict[str, Any]], *, ask: bool = False) -> str:
        try:
            return self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask)
        except Exception as error:
            # Templates raise errors of their own, for example about roles that do not alternate.
            raise JobError(f"The chat template refuses a row: {error}", code="bad_data") from error

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]


def _messages(row: Row, number: int) -> list[dict[str, Any]]:
    """Reads `messages` of `{role, content}`, or `conversations` of `{from, value}`."""
    column, role, content = ("messages", "role", "content")
    if row.get("messages") is None:
        column, role, content = ("conversations", "from", "value")
    turns = row.get(column)
    if not isinstance(turns, list) or not turns:
        raise _bad(number, column, "is no list of messages")
    found = []
    for turn in turns:
        if not isinstance(turn, dict) or not isinstance(turn.get(role), str) or not isinstance(turn.get(content), str):
            raise _bad(number, column, f"has a message without {role} and {content}")
        found.append({"role": _ROLES.get(turn[role], turn[role]), "content": turn[content]})
    return found


def _text(row: Row, column: str, number: int) -> str:
    value = row.get(column)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise _bad(number, column, "is missing" if value is None else "is not text")
    return value


def _bad(number: int, column: str, problem: str) -> JobError:
    return JobError(f"Row {number}: {column} {problem}.", code="bad_data", column=column, row=number)
