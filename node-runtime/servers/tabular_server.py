"""Model server for the tabular and text trainers: see README.md."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

sys.path.insert(0, str(Path(__file__).parent.parent / "trainers"))
sys.path.insert(0, str(Path(__file__).parent))

from asgi import Receive, refuse_weights, serve, server_arguments
from hearth_trainers.files import BadModelFile
from json_requests import JsonApp, answer_json, error
from lightgbm_native import LightGBMError
from tabular_model import Model, load_model, read_instances, read_texts

MAX_BODY = 16 << 20
# LightGBM's messages about a file that is not a model. It has other messages for memory errors and for files
# that it cannot open.
BAD_BOOSTER = re.compile(r"format error|model format|model file doesn't", re.IGNORECASE)
# Larger requests run in a thread, so that small ones and the health check do not wait for them.
INLINE_INSTANCES = 64


class TabularApp(JsonApp):
    """The application for one trained model."""

    def __init__(self, manifest: dict[str, Any], model: Model) -> None:
        self._model = model
        self._text_column: str | None = None
        if manifest["task"] == "text_classification":
            # The text model's word pattern takes a while to build, so the module isn't imported for tables.
            from text_model import text_settings

            self._text_column, _, _ = text_settings(manifest)
        self._health = {"status": "ok", "task": manifest["task"], "target": manifest["target"]}

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, Mapping[str, Any]]:
        route = (scope["method"], scope["path"])
        if route == ("GET", "/health"):
            return 200, self._health
        if route != ("POST", "/infer"):
            return 404, error(f"There is no {route[0]} {route[1]} here; use GET /health or POST /infer.")
        return await answer_json(receive, MAX_BODY, self._result)

    async def _result(self, body: Any) -> dict[str, Any]:
        column = self._text_column
        if column is None or not isinstance(body, dict) or "instances" in body or "text" not in body:
            return {"predictions": await self._predict(read_instances(body))}
        texts, is_one = read_texts(body["text"])
        predictions = await self._predict([{column: text} for text in texts])
        results = [{"label": one["label"], "scores": one["probabilities"]} for one in predictions]
        return results[0] if is_one else {"results": results}

    async def _predict(self, instances: Sequence[Mapping[str, Any]]) -> list[Any]:
        if len(instances) <= INLINE_INSTANCES:
            return self._model.predict(instances)
        return await asyncio.to_thread(self._model.predict, instances)


def main() -> None:
    """Loads the model, listens, and serves until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serves one trained tabular model over HTTP.")
    parser.add_argument("--artifact", type=Path, required=True, help="directory with manifest.json")
    parser.add_argument("--threads", type=int, default=1)
    server_arguments(parser)
    options = parser.parse_args()

    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    try:
        manifest, model = load_model(options.artifact, options.threads)
    except BadModelFile as error:
        refuse_weights(str(error))
    # These errors quote the files, which callers of the model must not see.
    except (ValueError, KeyError, EOFError, BadZipFile):
        refuse_weights("its files are damaged")
    except LightGBMError as error:
        if BAD_BOOSTER.search(str(error)):
            refuse_weights("its files are damaged")
        sys.exit("The model cannot be served: LightGBM could not load it.")
    except (OSError, TypeError, AttributeError):
        sys.exit("The model cannot be served: its files are damaged.")
    serve(TabularApp(manifest, model), options)


if __name__ == "__main__":
    main()
