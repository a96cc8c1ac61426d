"""The tasks in the formats of OpenAI's clients, and of Cohere's for reranking. Gateways forward such requests
and their responses unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

import numpy as np

from answers import InputProblem
from specialist.fields import MAX_TEXTS, count_of
from specialist.tasks import Task, TextModel


class Decode(Protocol):
    """Decodes a model's tokens."""

    def unknown(self, ids: Sequence[int]) -> int | None:
        """Returns the first id that isn't a token of the model."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Decodes tokens to text."""
        ...


def openai_tasks(model: TextModel, tokens: Decode) -> dict[str, Task]:
    """Returns the tasks of a model by path; `tokens` decodes inputs given as tokens."""
    tasks = model.tasks
    routes: dict[str, Task] = {}
    if "embeddings" in tasks:
        routes["/v1/embeddings"] = partial(_embeddings, tasks["embeddings"], tokens)
    if "rerank" in tasks:
        routes["/v1/rerank"] = routes["/v2/rerank"] = partial(_rerank, tasks["rerank"])
    if "moderation" in tasks:
        routes["/v1/moderations"] = partial(_moderations, tasks["moderation"])
    return routes


async def _embeddings(task: Task, decode: Decode, body: Mapping[str, Any]) -> dict[str, Any]:
    texts = _inputs(body.get("input"), decode)
    encode = _encoding(body.get("encoding_format"))
    dimensions = count_of(body, "dimensions")
    fields = {"text": texts, "dimensions": dimensions, **_truncate(body)}
    answer = await _naming(task(fields), "text", "input")
    data = [
        {"object": "embedding", "index": index, "embedding": encode(vector)}
        for index, vector in enumerate(answer["embeddings"])
    ]
    return {"object": "list", "data": data, **_model(body), **_facts(answer)}


async def _rerank(task: Task, body: Mapping[str, Any]) -> dict[str, Any]:
    documents = [_document(each, index) for index, each in enumerate(_list(body.get("documents"), "documents"))]
    top = count_of(body, "top_n")
    fields = {"query": body.get("query"), "documents": documents, **_truncate(body)}
    answer = await task(fields)
    scores = answer["scores"]
    best = sorted(range(len(scores)), key=lambda index: -scores[index])[:top]
    shows = body.get("return_documents") is True
    results = [
        {
            "index": index,
            "relevance_score": scores[index],
            **({"document": {"text": documents[index]}} if shows else {}),
        }
        for index in best
    ]
    return {"id": str(uuid4()), "object": "list", **_model(body), "results": results, **_facts(answer)}


async def _moderations(task: Task, body: Mapping[str, Any]) -> dict[str, Any]:
    texts = _inputs(body.get("input"), None)
    answer = await _naming(task({"text": texts, **_truncate(body)}), "text", "input")
    results = [
        {"flagged": one["flagged"], "categories": one["categories"], "category_scores": one["scores"]}
        for one in answer["results"]
    ]
    return {"id": f"modr-{uuid4()}", **_model(body), "results": results, **_facts(answer)}


async def _naming(work: Awaitable[dict[str, Any]], name: str, caller_name: str) -> dict[str, Any]:
    """Awaits a task. Its errors about the field `name` are raised for the field that the caller used."""
    try:
        return await work
    except InputProblem as problem:
        if not problem.path.startswith(f"/{name}"):
            raise
        text = str(problem).replace(name, caller_name, 1)
        raise InputProblem(text, problem.path.replace(name, caller_name, 1)) from None


def _inputs(value: Any, decode: Decode | None) -> list[str]:
    """Returns the texts of `input`: one or many, as text, as tokens, or as parts of type `text`."""
    if isinstance(value, str):
        return [value]
    parts = _list(value, "input")
    if decode and all(_is_token(part) for part in parts):
        return [_decoded(parts, decode, "/input")]
    return [_text(part, decode, f"/input/{index}") for index, part in enumerate(parts)]


def _text(part: Any, decode: Decode | None, path: str) -> str:
    if isinstance(part, str):
        return part
    if decode and isinstance(part, list) and part and all(map(_is_token, part)):
        return _decoded(part, decode, path)
    if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return part["text"]
    index = path.rpartition("/")[2]
    raise InputProblem(f"input[{index}] must be a string" + (" or a list of tokens" if decode else ""), path)


def _decoded(tokens: Sequence[int], decode: Decode, path: str) -> str:
    unknown = decode.unknown(tokens)
    if unknown is not None:
        raise InputProblem(
            f"input has the token id {unknown}, which is not in the vocabulary of this model. Send the text itself: "
            "clients that tokenize with the vocabulary of another model have a setting for that, such as "
            "check_embedding_ctx_length=False in LangChain",
            path,
        )
    return decode.decode(tokens)


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _document(value: Any, index: int) -> str:
    text = value.get("text") if isinstance(value, Mapping) else value
    if not isinstance(text, str):
        raise InputProblem(
            f"documents[{index}] must be a string, or an object with a string in text", f"/documents/{index}"
        )
    return text


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputProblem(f"{name} must be a string or a non-empty list", f"/{name}")
    # A list of tokens is one text.
    if len(value) > MAX_TEXTS and not all(map(_is_token, value)):
        raise InputProblem(f"{name} has {len(value)} texts; at most {MAX_TEXTS} are accepted", f"/{name}")
    return value


def _encoding(value: Any) -> Callable[[np.ndarray], Any]:
    if value in (None, "float"):
        return lambda vector: vector
    if value != "base64":
        raise InputProblem("encoding_format must be float or base64", "/encoding_format")
    return lambda vector: base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def _truncate(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"truncate": body["truncate"]} if "truncate" in body else {}


def _model(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": body["model"]} if isinstance(body.get("model"), str) else {}


def _facts(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the remaining fields of a result. The usage comes last, where gateways expect it."""
    return {**({"truncated": True} if answer.get("truncated") else {}), "usage": answer["usage"]}
