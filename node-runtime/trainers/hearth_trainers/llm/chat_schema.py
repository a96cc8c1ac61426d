"""The input and output schemas of a language model's endpoint."""

from __future__ import annotations

from typing import Any

_MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {"role": {"type": "string"}, "content": {"type": ["string", "array", "null"]}},
}

CHAT: dict[str, Any] = {
    "input_schema": {
        "type": "object",
        "required": ["messages"],
        "properties": {
            "messages": {"type": "array", "minItems": 1, "items": _MESSAGE},
            "max_tokens": {"type": "integer", "minimum": 1},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "top_p": {"type": "number", "minimum": 0, "maximum": 1},
            "stop": {"type": ["string", "array", "null"]},
            "seed": {"type": ["integer", "null"]},
        },
    },
    "output_schema": {
        "type": "object",
        "required": ["choices"],
        "properties": {
            "choices": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "object", "required": ["message"], "properties": {"message": _MESSAGE}},
            },
            "usage": {"type": "object"},
        },
    },
    "example_input": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 32},
    "example_output": {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello!"}, "finish_reason": "stop"}]
    },
}
