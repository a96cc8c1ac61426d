from __future__ import annotations

import json

import pytest

from llm.reasoning import ReasoningParser, closing_tag_of, open_end
from llm.text import Answer, Piece
from llm.tool_calls import CallReader, ValueEnd, call_of, gather

CALL = '<tool_call>{"name": "add", "arguments": {"a": "}"}}</tool_call>'


def answer_in_pieces(text: str, size: int, answer: Answer) -> list[Piece]:
    pieces: list[Piece] = []
    for start in range(0, len(text), size):
        pieces += answer.add(text[start : start + size])
    return pieces + answer.end()


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_answer_reads_a_tagged_call_in_pieces_of_any_size(size: int) -> None:
    pieces = answer_in_pieces(f"Let me see. {CALL}", size, Answer(names=frozenset(["add"])))

    [call] = gather([piece.tool_call for piece in pieces if piece.tool_call])
    assert call["function"] == {"name": "add", "arguments": '{"a": "}"}'}
    assert "".join(piece.text for piece in pieces).strip() == "Let me see."


def test_answer_leaves_a_call_as_text_when_the_request_has_no_tools() -> None:
    pieces = answer_in_pieces(CALL, 5, Answer())

    assert "".join(piece.text for piece in pieces) == CALL
    assert not any(piece.tool_call for piece in pieces)


def test_answer_reads_an_untagged_call_of_a_known_function_only() -> None:
    text = '{"name": "add", "parameters": {"a": 1}}'

    known = answer_in_pieces(text, 4, Answer(names=frozenset(["add"])))
    unknown = answer_in_pieces(text, 4, Answer(names=frozenset(["sub"])))

    assert gather([one.tool_call for one in known if one.tool_call])[0]["function"]["name"] == "add"
    assert "".join(one.text for one in unknown) == text


def test_answer_ends_at_a_stop_text_that_arrives_in_two_pieces() -> None:
    answer = Answer(stops=("STOP",))

    pieces = [*answer.add("one ST"), *answer.add("OP two"), *answer.end()]

    assert "".join(piece.text for piece in pieces) == "one "
    assert answer.stopped


def test_answer_reports_a_call_that_is_cut_off() -> None:
    answer = Answer(names=frozenset(["add"]))

    answer.add('<tool_call>{"name": "add", "arguments": {"a')
    answer.end()

    assert answer.in_call


def test_call_reader_reads_members_in_another_order() -> None:
    reader = CallReader(0)

    [fragment] = reader.add('{"arguments": {"a": 1}, "name": "add"}</tool_call> more')

    assert fragment["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert reader.rest == " more"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"name": "f", "parameters": {"a": 1}}', {"a": 1}),
        ('{"function": {"name": "f", "arguments": {"a": 1}}}', {"a": 1}),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', {"a": 1}),
        ('{"name": "f"}', {}),
    ],
)
def test_call_of_reads_each_notation_of_a_call(text: str, arguments: dict[str, int]) -> None:
    call = call_of(text)

    assert call is not None
    assert call.name == "f"
    assert json.loads(call.arguments) == arguments


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}', "nothing", '{"name": "f"'])
def test_call_of_returns_none_for_other_text(text: str) -> None:
    assert call_of(text) is None


def test_value_end_ignores_brackets_and_escaped_quotes_in_texts() -> None:
    text = '{"a": "}\\"]", "b": [1]} tail'
    end = ValueEnd()

    assert text[end.find(text, 0) :] == " tail"
    assert end.found


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_thoughts_split_reasoning_and_response(size: int) -> None:
    text = "\n<think>\nHm, 2.\n</think>\n\nIt is 2. <b>"
    reasoning = ReasoningParser()
    parts = [reasoning.add(text[start : start + size]) for start in range(0, len(text), size)] + [reasoning.end()]

    assert "".join(reasoning for reasoning, _ in parts) == "Hm, 2."
    assert "".join(response for _, response in parts) == "It is 2. <b>"


def test_thoughts_continue_reasoning_that_the_prompt_has_begun() -> None:
    reasoning = ReasoningParser(closing_tag_of("<|assistant|><think>\n"))

    assert reasoning.is_inside
    assert reasoning.add("why</think>done") == ("why", "done")


def test_thoughts_without_an_end_are_all_reasoning() -> None:
    reasoning = ReasoningParser()

    assert reasoning.add("<think>forever ") == ("forever", "")
    assert reasoning.end() == ("", "")


def test_open_end_finds_the_longest_beginning_of_a_mark() -> None:
    assert open_end("text <too", ("<tool_call>", "</think>")) == 4
    assert open_end("text", ("<tool_call>",)) == 0
