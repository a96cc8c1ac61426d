"""Constrains a response to its form during generation: a token that would break
the form cannot be chosen."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .generation import Guided
from .model import LanguageModel
from .options import Unusable
from .output import ANY_OBJECT, Output, Tool
from .text import Answer
from .tool_calls import TOOL_CLOSE, TOOL_OPEN

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

# The layout of json.dumps, on which models are trained. With free whitespace, a model might never stop.
LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Grammars:
    """Creates the guides for one model's responses. It imports the grammar library for the first guide, to
    keep the server's startup fast.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._tokenizer: LLTokenizer | None = None
        self._loading = threading.Lock()

    def guide(self, output: Output, answer: Answer) -> Guided | None:
        """Returns this response's guide; None if its form is not constrained. It takes milliseconds, so it
        must not run in an event loop.
        """
        guide = self._guide(output, answer)
        # Reasoning that the prompt has already opened is not constrained.
        return ReasoningGuide(guide, answer) if isinstance(guide, Guide) and answer.reasoning.is_inside else guide

    def _guide(self, output: Output, answer: Answer) -> Guide | CallGuide | None:
        if not output.tools and output.schema is None:
            return None
        tokenizer = self._load()
        schema = None if output.schema is None else self._checked(output.schema, output.schema_field, output.strict)
        rules = self._call_rules(output.tools)
        begin = self._mark(TOOL_OPEN)
        again = "" if output.one_call else f'("\\n"? {begin} inside)*'
        calls = f"calls: {begin} inside {again}\n{rules}"
        if output.forced:
            return Guide(self._matcher(f"start: calls\n{calls}"), tokenizer)
        if schema is None:
            return CallGuide(lambda: Guide(self._matcher(f"start: inside\n{rules}"), tokenizer), answer)
        either = f"start: text | calls\n{calls}" if output.tools else "start: text\n"
        return Guide(self._matcher(f"{either}text: %json {schema}\n"), tokenizer)

    def _call_rules(self, tools: tuple[Tool, ...]) -> str:
        """Returns the grammar rules of the calls; `inside` is the text between the tags of a call."""
        if not tools:
            return ""
        names = " | ".join(f"call_{number}" for number in range(len(tools)))
        rules = [f'inside: "\\n"? ({names}) "\\n"? {self._mark(TOOL_CLOSE)}']
        for number, tool in enumerate(tools):
            try:
                schema = self._checked(tool.parameters, tool.field, tool.strict)
            except Unusable:
                # One odd schema among an agent's many tools must not break its chats, unless that tool is
                # strict.
                if tool.strict:
                    raise
                schema = self._checked(ANY_OBJECT, tool.field, strict=False)
            begin = json.dumps(f'{{"name": {json.dumps(tool.name)}, "arguments": ')
            rules.append(f'call_{number}: {begin} %json {schema} "}}"')
        return "\n".join(rules) + "\n"

    def _mark(self, tag: str) -> str:
        """Returns a tag as a grammar terminal. If the model has a token for the tag,
        only that token matches."""
        tokens = self._load().tokenize_str(tag)
        return f"<[{tokens[0]}]>" if len(tokens) == 1 else json.dumps(tag)

    def _checked(self, schema: dict[str, Any], field: str, strict: bool) -> str:
        from llguidance import LLMatcher

        text = json.dumps({**schema, "x-guidance": {**LAYOUT, "lenient": not strict}})
        grammar = LLMatcher.grammar_from_json_schema(text)
        failed, messages = LLMatcher.validate_grammar_with_warnings(grammar, self._load())
        if failed:
            raise Unusable(f"{field} cannot be used: {messages[0]}", field)
        return text

    def _matcher(self, grammar: str) -> LLMatcher:
        from llguidance import LLMatcher

        matcher = LLMatcher(self._load(), grammar, log_level=0)
        if matcher.is_error():
            raise Unusable(f"the combined schemas of this request are too large: {matcher.get_error()[:200]}")
        return matcher

    def _load(self) -> LLTokenizer:
        with self._loading:
            if self._tokenizer is None:
                from llguidance.hf import from_tokenizer

                try:
                    self._tokenizer = from_tokenizer(
                        self._model.tokenizer, n_vocab=self._model.vocabulary, eos_token=sorted(self._model.ends)
                    )
                except ValueError as error:
                    raise Unusable(f"this model's responses cannot be constrained to a format: {error}") from error
            return self._tokenizer


class Guide:
    """Restricts a model to tokens that fit the form."""

    def __init__(self, matcher: LLMatcher, tokenizer: LLTokenizer) -> None:
        self._matcher = matcher
        self._tokenizer = tokenizer

    def narrow(self, logits: torch.Tensor) -> None:
        """Sets to zero the probability of every token that cannot come next."""
        allowed = torch.frombuffer(bytearray(self._matcher.compute_logit_bias()), dtype=torch.uint8)
        logits[(allowed == 0).to(logits.device)] = -torch.inf

    def accept(self, token: int) -> bool:
        """Records a token; returns False once nothing can follow it."""
        if not self._matcher.consume_token(token):
            raise RuntimeError(self._matcher.get_error())
        return not self._matcher.is_stopped()

    def read(self, text: str) -> bool:
        """Records text from before this guide began; returns False if it has already broken the form."""
        tokens = self._tokenizer.tokenize_str(text)
        return self._matcher.try_consume_tokens(tokens) == len(tokens)


class ReasoningGuide:
    """Leaves a model's reasoning unconstrained, and constrains the response after it."""

    def __init__(self, guide: Guide, answer: Answer) -> None:
        self._guide: Guide | None = guide
        self._answer = answer
        self._in_reasoning = True

    def narrow(self, logits: torch.Tensor) -> None:
        """Works like `Guide.narrow`, after the reasoning."""
        if self._guide and not self._in_reasoning:
            self._guide.narrow(logits)

    def accept(self, token: int) -> bool:
        """Works like `Guide.accept`. The `Answer` knows when the reasoning ends."""
        if not self._in_reasoning:
            return self._guide.accept(token) if self._guide else True
        self._in_reasoning = self._answer.reasoning.is_inside
        if not self._in_reasoning and self._guide and not self._guide.read(self._answer.reasoning.answer_start):
            # The token that ended the reasoning also contained text that does not fit the form.
            self._guide = None
        return True


class CallGuide:
    """Leaves a model's text unconstrained, and constrains each call that it begins."""

    def __init__(self, begin: Callable[[], Guide], answer: Answer) -> None:
        self._begin = begin
        self._answer = answer
        self._guide: Guide | None = begin()
        self._in_call = False

    def narrow(self, logits: torch.Tensor) -> None:
        """Works like `Guide.narrow`, inside a call."""
        if self._in_call and self._guide:
            self._guide.narrow(logits)

    def accept(self, token: int) -> bool:
        """Works like `Guide.accept`; the response may continue after a call."""
        if self._in_call:
            if self._guide:
                self._guide.accept(token)
            if not self._answer.in_tagged_call:
                self._guide, self._in_call = self._begin(), False
        elif self._answer.in_tagged_call:
            self._in_call = True
            if self._guide and not self._guide.read(self._answer.unread):
                # The token of the opening tag also contained text that does not fit a call.
                self._guide = None
        return True
