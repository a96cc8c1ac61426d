"""Tokenizes rows by the rules of the dataset types, and marks the tokens to train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import JobError
from .lost_parts import REASONING, LostParts
from .messages import Conversation, read_conversation
from .notes import Notes
from .rows import Row
from .settings import Settings

IGNORED = -100

# For tokenizers without a template. The model is trained with this one, and it is saved with the model, so
# chats use the same one. Its tool calls have the format that the servers parse.
FALLBACK_TEMPLATE = (
    "{{ bos_token or '' }}"
    "{% if tools %}{{ '### Tools:\\n' }}{% for tool in tools %}{{ tool | tojson + '\\n' }}{% endfor %}"
    "{{ '\\n' }}{% endif %}"
    "{% for message in messages %}"
    "{{ '### ' + message['role'].capitalize() + ':\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] or '' }}{% for call in message['tool_calls'] or [] %}"
    "{{ '<tool_call>\\n' }}"
    "{{ {'name': call['function']['name'], 'arguments': call['function']['arguments']} | tojson }}"
    "{{ '\\n</tool_call>' }}{% endfor %}{{ eos_token }}{% endgeneration %}{{ '\\n\\n' }}"
    "{% else %}{{ message['content'] + '\\n\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### Assistant:\\n' }}{% endif %}"
)


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
        self.notes = Notes()
        self._lost_parts = LostParts()
        self._render = {"alpaca": self._alpaca, "chat": self._chat, "text": self._text}[settings.dataset_type]

    def render(self, row: Row, number: int) -> Example | None:
        """Returns the tokens of row `number` (from 1), or None if there is nothing to learn from it. Raises
        an error that names the row if it cannot be trained on. `notes` counts what is lost.
        """
        return self._render(row, number)

    def _alpaca(self, row: Row, number: int) -> Example | None:
        if self._is_empty(row, "output", number):
            return None
        instruction, output = _text(row, "instruction", number), _text(row, "output", number)
        extra = row.get("input")
        if extra is not None and not isinstance(extra, str):
            raise _bad(number, "input", "is not text")
        asked = "\n\n".join(part for part in (instruction, extra or "") if part.strip())
        if not asked:
            raise _bad(number, "instruction", "is empty")
        prompt, answer = self._split_turn([{"role": "user", "content": asked}], output, number)
        return self._fit_answer(self._ids(prompt), self._ids(answer), number)

    def _is_empty(self, row: Row, column: str, number: int) -> bool:
        """Notes a row whose target text is empty. A row without that column is an error in the dataset."""
        value = row.get(column, ...)
        is_empty = value is None or (isinstance(value, str) and not value.strip())
        if is_empty:
            self.notes.add("empty", number)
        return is_empty

    def _split_turn(self, asked: list[dict[str, Any]], output: str, number: int) -> tuple[str, str]:
        """Returns the prompt in the form that chats will have, and the answer with its end-of-sequence token."""
        prompt = self._template(asked, number, with_prompt=True)
        whole = self._template([*asked, {"role": "assistant", "content": output}], number)
        eos = self._tokenizer.eos_token or ""
        if not whole.startswith(prompt):
            # The template renders past turns differently from the turn that it prompts for.
            return prompt, output + eos
        answer = whole[len(prompt) :]
        if eos and answer.rstrip().endswith(eos):
            answer = answer.rstrip()
        return prompt, answer if answer.strip() != output.strip() else output + eos

    def _fit_answer(self, prompt: list[int], answer: list[int], number: int) -> Example:
        """Truncates the beginning of the prompt and leaves the answer whole. Keeps at least one prompt token,
        so that the answer's first token follows something.
        """
        max_prompt = self._limit - len(answer)
        if len(prompt) > max_prompt:
            self.notes.add("cut", number)
            prompt = prompt[-max(1, max_prompt) :]
        # A model cannot be trained on tokens beyond its last position.
        if len(prompt) + len(answer) > self._max_positions:
            self.notes.add("cut_answer", number)
        ids = (prompt + answer)[: self._max_positions]
        if len(ids) > self._settings.sequence_len:
            self.notes.add("long_output", number)
        return Example(ids, ([IGNORED] * len(prompt) + answer)[: self._max_positions])

    def _chat(self, row: Row, number: int) -> Example:
        chat = read_conversation(row, number, str(self._tokenizer.chat_template))
        text = self._template(chat.messages, number, tools=chat.tools)
        if chat.has_calls:
            silent = [{name: one for name, one in turn.items() if name != "tool_calls"} for turn in chat.messages]
            if self._template(silent, number, tools=chat.tools) == text:
                raise JobError(
                    f"Row {number}: its messages call tools, and the chat template of the base model leaves calls out. "
                    "Choose a base model whose template has tool calls, or write the calls as the content of the "
                    "messages.",
                    code="no_tool_template",
                    row=number,
                )
        if chat.tools and self._template(chat.messages, number) == text:
            self.notes.add("tools", number)
        for name in sorted(chat.unused):
            self.notes.add_member(name, number)
        if chat.unused_system:
            self.notes.add("unused_system", number)
        self._check_parts(chat, text, number)
        return self._whole(self._ids(text), number)

    def _check_parts(self, chat: Conversation, text: str, number: int) -> None:
        """Rejects a row that lost one of its messages, because the others would then answer something else.
        If an instruction, reasoning or text next to calls is lost, a conversation remains, so the loss is
        only noted.
        """

        def render(messages: list[dict[str, Any]]) -> str:
            return self._template(messages, number, tools=chat.tools)

        try:
            lost = self._lost_parts.find(chat.messages, text, render)
        except JobError:
            # The template rejects other text in these messages, so we can't find out what it leaves out.
            return
        kinds: set[str] = set()
        for part in lost:
            message = chat.messages[part.place]
            if part.kind == REASONING:
                kinds.add("reasoning")
            elif "tool_calls" in message:
                kinds.add("beside_calls")
            elif message["role"] == "system":
                kinds.add("system")
            else:
                raise JobError(
                    f"Row {number}: message {part.place + 1 - chat.inserted} has the role '{message['role']}', and "
                    "the chat template of the base model leaves its text out. Choose a base model whose template "
                    "shows such messages, or write the text in a user or assistant message.",
                    code="no_role_template",
                    row=number,
                )
        for kind in kinds:
            self.notes.add(kind, number)

    def _text(self, row: Row, number: int) -> Example | None:
        column = self._settings.text_column
        if self._is_empty(row, column, number):
            return None
        eos = self._tokenizer.eos_token_id
        ids = self._tokenizer(_text(row, column, number))["input_ids"]
        if eos is not None and ids[-1] != eos:
            ids = [*ids, eos]
        return self._whole(ids, number)

    def _whole(self, ids: list[int], number: int) -> Example:
        if len(ids) > self._limit:
            self.notes.add("cut", number)
            ids = ids[: self._limit]
        return Example(ids, list(ids))

    def _template(
        self,
        messages: list[dict[str, Any]],
        number: int,
        *,
        with_prompt: bool = False,
        tools: list[dict[str, Any]] | None = None,
    ) -> str:
        try:
            return self._tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=with_prompt
            )
        except Exception as error:
            # Templates raise their own errors, for example about roles that do not alternate.
            raise JobError(
                f"Row {number}: the chat template of the base model refuses it: {error}", code="bad_data", row=number
            ) from error

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]


def _text(row: Row, column: str, number: int) -> str:
    value = row.get(column)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise _bad(number, column, "is missing" if value is None else "is not text")
    return value


def _bad(number: int, column: str, problem: str) -> JobError:
    return JobError(f"Row {number}: {column} {problem}.", code="bad_data", column=column, row=number)
