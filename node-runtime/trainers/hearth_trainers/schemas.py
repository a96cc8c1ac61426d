"""JSON Schemas of a trained model's input and output, and text for their examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from .tabular.features import BOOLEAN, CATEGORY, DATETIME, NUMBER, Feature

MAX_INSTANCES = 10_000
MAX_EXAMPLE_CHARS = 500
# An endpoint cannot answer requests if its schema is longer.
_MAX_SCHEMA_CHARS = 128 * 1024
_LISTED_VALUES = 20
_LISTED_CHARS = 80
_TYPES = {NUMBER: "number", BOOLEAN: "boolean", CATEGORY: "string", DATETIME: "string"}


def instances_schema(properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """Returns the schema of `{instances: [{column: value}]}`. Columns that the model does not use
    are allowed and ignored."""
    instance = {"type": "object", "properties": properties, "required": list(required)}
    instances = {"type": "array", "minItems": 1, "maxItems": MAX_INSTANCES, "items": instance}
    return {"type": "object", "properties": {"instances": instances}, "required": ["instances"]}


def predictions_schema(item: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of `{predictions: [...]}`, with one prediction per instance."""
    predictions = {"type": "array", "items": item}
    return {"type": "object", "properties": {"predictions": predictions}, "required": ["predictions"]}


def columns_schema(features: Sequence[Feature]) -> dict[str, Any]:
    """Returns the input schema of a model over columns. A column that had no missing values in training is
    required. `x-order` lists the columns in table order, because the database doesn't preserve the order
    of object members. A schema that would be too long omits the values seen in training.
    """
    schema = _columns(features, _seen_values)
    if _length(schema) <= _MAX_SCHEMA_CHARS:
        return schema
    return _columns(features, lambda _: "A text that was seen in training; any other counts as missing.")


def _columns(features: Sequence[Feature], words_of: Callable[[Feature], str]) -> dict[str, Any]:
    properties = {feature.name: _column(feature, words_of) for feature in features}
    schema = instances_schema(properties, [feature.name for feature in features if feature.required])
    schema["properties"]["instances"]["items"]["x-order"] = list(properties)
    return schema


def class_schema(classes: Sequence[Any]) -> dict[str, Any]:
    """Returns the schema of a classifier's prediction."""
    probability = {"type": "number", "minimum": 0, "maximum": 1}
    names = [label_name(label) for label in classes]
    return {
        "type": "object",
        "properties": {
            "label": {"enum": list(classes)},
            "probabilities": {
                "type": "object",
                "properties": dict.fromkeys(names, probability),
                "required": names,
            },
        },
        "required": ["label", "probabilities"],
    }


def with_text_input(schema: dict[str, Any]) -> dict[str, Any]:
    """Adds `text`, a string or a list of strings, to the schema of instances. The server checks that one of
    the two is present, because tool clients reject alternatives at the top level of a schema.
    """
    text = {"type": "string"}
    texts = {"type": "array", "minItems": 1, "maxItems": MAX_INSTANCES, "items": text}
    named = {"description": "A string, or a list of strings, in place of instances.", "anyOf": [text, texts]}
    return {"type": "object", "properties": {**schema["properties"], "text": named}, "minProperties": 1}


def with_text_output(schema: dict[str, Any], classes: Sequence[Any]) -> dict[str, Any]:
    """Adds the response to `text` to the schema of predictions: `{label, scores}`, or a list of these in
    `results`.
    """
    prediction = class_schema(classes)["properties"]
    verdict = {"label": prediction["label"], "scores": prediction["probabilities"]}
    required = list(verdict)
    results = {"type": "array", "items": {"type": "object", "properties": verdict, "required": required}}
    return {
        "type": "object",
        "properties": {**schema["properties"], **verdict, "results": results},
        "anyOf": [{"required": schema["required"]}, {"required": required}, {"required": ["results"]}],
    }


def example_text(text: str) -> str:
    """Returns the start of a dataset text for an example, because a row may exceed the size limit of results."""
    return text[:MAX_EXAMPLE_CHARS]


def label_name(label: Any) -> str:
    """Returns a label as the name of a JSON member."""
    if isinstance(label, bool):
        return "true" if label else "false"
    return str(label)


def _column(feature: Feature, words_of: Callable[[Feature], str]) -> dict[str, Any]:
    kind = _TYPES[feature.kind]
    schema: dict[str, Any] = {"type": kind if feature.required else [kind, "null"]}
    if feature.kind == DATETIME:
        schema["description"] = "A date such as 2026-03-01 or 2026-03-01T12:00:00Z."
    if feature.kind == CATEGORY:
        schema["description"] = words_of(feature)
    return schema


def _seen_values(feature: Feature) -> str:
    values = feature.categories
    listed = ", ".join(_start_of(value) for value in values[:_LISTED_VALUES])
    more = ", ..." if len(values) > _LISTED_VALUES else ""
    return f"Seen in training: {listed}{more}. Any other text counts as missing."


def _start_of(value: str) -> str:
    return value if len(value) <= _LISTED_CHARS else f"{value[:_LISTED_CHARS]}..."


def _length(schema: dict[str, Any]) -> int:
    """Returns the length as JavaScript counts it; the added spaces may make it slightly too long."""
    return len(json.dumps(schema, ensure_ascii=False).encode("utf-16-le")) // 2
