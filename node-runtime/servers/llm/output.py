"""The response format that a request requires: tool calls, or JSON that matches a schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from json_values import is_list, is_object

from .options import Unusable

NAME = re.compile(r"[^\s\"\\]{1,128}")
CHOICES = ("none", "auto", "required")
FORMATS = "text, json_object or json_schema"
ANY_OBJECT: dict[str, Any] = {"type": "object"}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass
class Tool:
    """A function that the model may call."""

    name: str
    parameters: dict[str, Any]
    # True if a part of the schema that cannot be enforced is an error; otherwise it is ignored.
    strict: bool
    # The location of the schema in the request.
    field: str


@dataclass
class Output:
    """The required format of one response."""

    # The tools for the chat template; None if the model must not see any.
    described: list[dict[str, Any]] | None = None
    tools: tuple[Tool, ...] = ()
    # True if the response must consist of calls.
    forced: bool = False
    one_call: bool = False
    # If set, the text must be JSON that matches this schema, which is at `schema_field` of the request.
    schema: dict[str, Any] | None = None
    schema_field: str = "response_format"
    # True if a part of that schema that cannot be enforced is an error.
    strict: bool = False

    @classmethod
    def read(cls, body: dict[str, Any]) -> Output:
        """Checks `tools`, `tool_choice`, `parallel_tool_calls` and `response_format`."""
        described, choice = body.get("tools"), body.get("tool_choice")
        if described is not None and not is_list(described):
            raise Unusable("tools must be a list", "tools")
        described = described or []
        tools = tuple(_tool(number, tool) for number, tool in enumerate(described))
        name = _named(choice)
        if name is None and choice is not None and choice not in CHOICES:
            raise Unusable("tool_choice must be none, auto, required, or name a function", "tool_choice")
        if not tools and (name is not None or choice == "required"):
            raise Unusable("tool_choice requires a call, but tools lists no function", "tool_choice")
        schema, field, strict = _schema(body.get("response_format"))
        if not tools or choice == "none":
            return cls(schema=schema, schema_field=field, strict=strict)
        if name is not None:
            chosen = [number for number, tool in enumerate(tools) if tool.name == name]
            if not chosen:
                raise Unusable(f"tool_choice names {name}, which is not in tools", "tool_choice")
            described, tools = [described[chosen[0]]], (tools[chosen[0]],)
        forced = name is not None or choice == "required"
        one_call = name is not None or body.get("parallel_tool_calls") is False
        return cls(described, tools, forced, one_call, None if forced else schema, field, strict)


def _named(choice: Any) -> str | None:
    if not is_object(choice):
        return None
    function = choice.get("function")
    name = function.get("name") if is_object(function) else None
    if choice.get("type", "function") != "function" or not isinstance(name, str):
        raise Unusable("tool_choice must be none, auto, required, or name a function", "tool_choice")
    return name


def _tool(number: int, tool: Any) -> Tool:
    at = f"tools[{number}]"
    if not is_object(tool) or tool.get("type", "function") != "function":
        raise Unusable(f"{at}.type must be function", f"{at}.type")
    function = tool.get("function")
    name = function.get("name") if is_object(function) else None
    if not is_object(function) or not isinstance(name, str) or not NAME.fullmatch(name):
        raise Unusable(f"{at}.function.name must be a name without spaces", f"{at}.function.name")
    field = f"{at}.function.parameters"
    parameters = function.get("parameters")
    if parameters is not None and not is_object(parameters):
        raise Unusable(f"{field} must be a JSON schema of an object", field)
    # Arguments are always an object, whether the schema says so or not.
    schema = NOTHING if parameters is None else {**parameters, "type": "object"}
    return Tool(name, schema, function.get("strict") is True, field)


def _schema(form: Any) -> tuple[dict[str, Any] | None, str, bool]:
    if form is None:
        return None, "", False
    form = form if is_object(form) else {}
    kind = form.get("type")
    if kind == "text":
        return None, "", False
    if kind == "json_object":
        return ANY_OBJECT, "response_format", False
    if kind != "json_schema":
        raise Unusable(f"response_format.type must be {FORMATS}", "response_format.type")
    field = "response_format.json_schema.schema"
    inner = form.get("json_schema")
    schema = inner.get("schema") if is_object(inner) else None
    if not is_object(inner) or not is_object(schema):
        raise Unusable(f"{field} must be a JSON schema", field)
    return schema, field, inner.get("strict") is True
