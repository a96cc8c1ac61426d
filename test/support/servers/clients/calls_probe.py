"""Parses responses as the PyTorch model server does: reads responses as JSON from standard input, and writes the parsed
output of each to standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4] / "node-runtime" / "servers"))

from json_values import is_object
from llm.reasoning import ReasoningParser, closing_tag_of
from llm.text import Answer, Piece
from llm.tool_calls import gather


def read(
    texts: list[str], prompt: str = "", names: Sequence[str] = ("f", "g"), stops: Sequence[str] = (), **options: Any
) -> dict[str, object]:
    """Returns the complete parsed answer, and whether it ended within a tool call."""
    answer = Answer(tuple(stops), frozenset(names), reasoning=ReasoningParser(closing_tag_of(prompt)), **options)
    pieces: list[Piece] = []
    for text in texts:
        if not answer.stopped:
            pieces += answer.add(text)
    pieces += answer.end()
    fragments = [piece.tool_call for piece in pieces if piece.tool_call]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in gather(fragments)]
    return {
        "text": "".join(piece.text for piece in pieces),
        "thought": "".join(piece.reasoning for piece in pieces),
        "calls": calls,
        "fragments": len(fragments),
        "pieces": sum(bool(piece.text) for piece in pieces),
        "cut": answer.in_call,
        "stopped": answer.stopped,
    }


print(json.dumps([read(**one) if is_object(one) else read(one) for one in json.load(sys.stdin)]))
