"""Reads answers as the PyTorch model server does: lists of texts as JSON on standard input, what is told of each on standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "node-runtime" / "servers")]

from llm_calls import gather
from llm_text import Answer


def read(texts: list[str]) -> dict[str, object]:
    """The whole of one answer, and whether it ended within a call."""
    answer = Answer(with_tools=True)
    pieces = [piece for text in texts for piece in answer.add(text)] + answer.end()
    fragments = [piece.tool_call for piece in pieces if piece.tool_call]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in gather(fragments)]
    text = "".join(piece.text for piece in pieces)
    return {"text": text, "calls": calls, "fragments": len(fragments), "cut": answer.in_call}


print(json.dumps([read(texts) for texts in json.load(sys.stdin)]))
