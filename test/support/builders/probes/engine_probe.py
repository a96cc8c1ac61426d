"""Makes parts of the language model server's engine fail, and compares its responses with those without failures.
Usage: `python engine_probe.py MODEL_FOLDER`; prints a JSON object with the facts of each case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[4] / "node-runtime" / "servers"))

import torch

from llm import lane_check
from llm.engine import Engine
from llm.generation import Generation
from llm.lanes import Lane, LaneLayer
from llm.model import LanguageModel
from llm.options import Sampling

PROMPTS = tuple([7 + (13 * at + length) % 300 for at in range(length)] for length in (40, 5, 90, 17))
NEW_TOKENS = (12, 30, 18, 24)
ENDED = "ended with an error"


class Server:
    """A model and its engine; counts the rows of each pass and the first chunks of prompts."""

    def __init__(self, folder: Path) -> None:
        model = LanguageModel(folder, 1)
        model.ends = frozenset()
        self.most_rows = self.prompts = 0
        # True if passes of several rows fail, and all later ones.
        self.is_lost = False
        self._forward, model.forward = model.forward, self._watch
        self.engine = Engine(model, len(PROMPTS), 1 << 30)

    def responses(self, prompts: tuple[list[int], ...] = PROMPTS, first: int = 0, temperature: float = 0) -> list[Any]:
        """Returns the tokens of each response, or how it ended. All requests arrive before the first pass."""
        self.most_rows = self.prompts = 0
        tokens: list[list[int]] = [[] for _ in prompts]
        started: list[Future[None]] = []

        def start() -> None:
            for prompt, most, response in zip(prompts, NEW_TOKENS[first:], tokens, strict=False):
                generation = Generation(prompt, Sampling(max_tokens=most, temperature=temperature, seed=1))
                started.append(self.engine.generate(generation, lambda token, to=response: to.append(token) is None))

        self.engine.change(start).result(20)
        return [_outcome(future, response) for future, response in zip(started, tokens, strict=True)]

    def _watch(
        self, inputs: dict[str, torch.Tensor], cache: Any, adapter: str | None = None, length: int | None = None
    ) -> torch.Tensor:
        if self.is_lost and (self.most_rows > 1 or len(inputs["input_ids"]) > 1):
            self.most_rows = 2
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        self.most_rows = max(self.most_rows, len(inputs["input_ids"]))
        self.prompts += inputs["input_ids"].shape[1] > 1
        return self._forward(inputs, cache, adapter, length)


def _outcome(future: Future[None], tokens: list[int]) -> Any:
    try:
        future.result(20)
    except TimeoutError:
        return "never ended"
    except Exception:
        return ENDED
    return tokens


def _raise(error: Exception) -> Callable[..., Any]:
    def work(*_: Any, **__: Any) -> None:
        raise error

    return work


def check(folder: Path) -> dict[str, Any]:
    """Returns the facts of each case."""
    server = Server(folder)
    expected = [server.responses(PROMPTS[at : at + 1], at)[0] for at in range(len(PROMPTS))]
    facts: dict[str, Any] = {}

    def note(name: str, on: Server | None = None) -> None:
        one = on or server
        facts[name] = {"equal": one.responses() == expected, "shared": one.most_rows > 1}

    note("no failure")

    with patch.object(Lane, "leave", _raise(RuntimeError("CUDA error"))):
        note("rows that cannot leave")
        facts["a single row that cannot leave"] = server.responses(PROMPTS[:1]) == expected[:1]

        server.is_lost = True
        facts["a lost GPU"] = server.responses()
        server.is_lost = False
    note("after a lost GPU")

    with patch.object(server.engine, "_admit", _raise(RuntimeError("defect"))):
        facts["a defect"] = server.responses()
    note("after a defect")

    resize = LaneLayer.resize

    def shrink(layer: LaneLayer, like: Any, rows: int, columns: int, used: int) -> None:
        if layer.is_initialized and rows < layer.keys.shape[0]:
            raise torch.OutOfMemoryError("out of memory")
        resize(layer, like, rows, columns, used)

    with patch.object(LaneLayer, "resize", shrink):
        note("no memory to shrink")
    facts["prompts computed without memory to shrink"] = server.prompts

    for name, error in (("error", RuntimeError("defect")), ("lack of memory", torch.OutOfMemoryError("full"))):
        other = Server(folder)
        with patch.object(lane_check, "_is_equal_together", side_effect=error) as compare:
            note(f"{name} in the padding check", other)
            facts[f"{name} is final"] = compare.call_count == 1
        note(f"after the {name} in the padding check", other)

    cold = server.responses(temperature=1e-40)
    facts["a tiny temperature"] = cold == expected
    return facts


print("\n" + json.dumps(check(Path(sys.argv[1]))))
