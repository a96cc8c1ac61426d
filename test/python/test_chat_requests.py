from __future__ import annotations

from typing import Any

import pytest

from llm.options import Unusable
from llm.output import NOTHING, Output
from llm.request import SERVED_NAME, ChatRequest, ReadRequest

MESSAGES = [{"role": "user", "content": "Hi"}]
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
}


def read(**fields: Any) -> ChatRequest:
    return ChatRequest.read({"messages": MESSAGES, **fields})


def refused_field(**fields: Any) -> str | None:
    with pytest.raises(Unusable) as problem:
        read(**fields)
    return problem.value.field


def test_chat_request_has_defaults() -> None:
    request = read()

    assert request.model == SERVED_NAME
    assert request.sampling.temperature is None
    assert request.stops == ()
    assert not request.stream


def test_chat_request_reads_sampling_options() -> None:
    sampling = read(max_tokens=5, max_completion_tokens=7, temperature=0, top_k=-1, seed=3).sampling

    assert (sampling.max_tokens, sampling.temperature, sampling.top_k, sampling.seed) == (7, 0, -1, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 2.1),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", -0.1),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("seed", 1 << 64),
        ("n", 2),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("stop", ["x"] * 17),
        ("stop", [1]),
    ],
)
def test_chat_request_names_the_invalid_field(name: str, value: Any) -> None:
    assert refused_field(**{name: value}) == name


def test_chat_request_joins_parts_and_renames_developers() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    [message] = read(messages=[{"role": "developer", "content": parts}]).messages

    assert message == {"role": "system", "content": "ab"}


def test_chat_request_refuses_images() -> None:
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {}}]

    assert refused_field(messages=[{"role": "user", "content": parts}]) == "messages[0].content"


def test_chat_request_parses_the_arguments_of_earlier_calls() -> None:
    call = {"id": "1", "function": {"name": "add", "arguments": '{"a": 1}'}}

    [message] = read(messages=[{"role": "assistant", "content": None, "tool_calls": [call]}]).messages

    assert message["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert message["content"] == ""


def test_chat_request_accepts_a_prompt_of_token_ids_in_place_of_messages() -> None:
    assert ChatRequest.read({"prompt": [1, 2]}).tokens == [1, 2]
    for prompt in ([], [-1], [True]):
        with pytest.raises(Unusable):
            ChatRequest.read({"prompt": prompt})
    assert refused_field(prompt=[1]) == "prompt"


def test_read_request_prefers_a_prompt_to_messages() -> None:
    body = {"space_fingerprint": "f", "messages": MESSAGES}

    assert ReadRequest.read({**body, "prompt": "text"}).messages is None
    assert ReadRequest.read({**body, "prompt": ""}).messages == MESSAGES
    with pytest.raises(Unusable, match="space_fingerprint"):
        ReadRequest.read({"prompt": "text"})


def test_output_reduces_the_tools_to_the_chosen_one() -> None:
    other = {"type": "function", "function": {"name": "sub"}}
    body: dict[str, Any] = {"tools": [TOOL, other], "tool_choice": {"type": "function", "function": {"name": "sub"}}}

    output = Output.read(body)

    assert [tool.name for tool in output.tools] == ["sub"]
    assert output.described == [other]
    assert output.tools[0].parameters == NOTHING
    assert output.forced
    assert output.one_call


def test_output_hides_tools_from_the_model_when_no_call_is_wanted() -> None:
    output = Output.read({"tools": [TOOL], "tool_choice": "none"})

    assert output.described is None
    assert output.tools == ()


def test_output_reads_a_json_schema() -> None:
    form = {"type": "json_schema", "json_schema": {"schema": {"type": "array"}, "strict": True}}

    output = Output.read({"response_format": form})

    assert output.schema == {"type": "array"}
    assert output.strict


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tools": {}}, "tools"),
    ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
    ({"tools": [{"function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [{"function": {"name": "a", "parameters": []}}]}, "tools[0].function.parameters"),
    ({"tools": [TOOL], "tool_choice": "always"}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": "json"}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
]


@pytest.mark.parametrize(("body", "field"), REFUSED)
def test_output_names_the_invalid_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(Unusable) as problem:
        Output.read(body)
    assert problem.value.field == field
