"""Starts like vLLM: `python -m vllm.entrypoints.cli.main serve DIR --uds PATH`. Prints no ready line, and
becomes healthy after a while. With vllm-cli.json as the first argument, rejects arguments that the pinned
version doesn't know."""

import itertools
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

SICK_S = 1.0


def check_arguments(arguments: list[str], cli: dict[str, list[str]]) -> str | None:
    """Returns the error that vLLM's parser would print; None if it accepts the arguments."""
    names = [part.split("=")[0].replace("--no-", "--") for part in arguments if part.startswith("--")]
    unknown = [name for name in names if name not in cli["flags"]]
    if unknown:
        return f"unrecognized arguments: {' '.join(unknown)}"
    values = dict(itertools.pairwise(arguments))
    for flag, known in (("--tool-call-parser", "tool_parsers"), ("--reasoning-parser", "reasoning_parsers")):
        if flag in values and values[flag] not in cli[known]:
            return f"argument {flag}: invalid choice: {values[flag]}"
    share = float(values.get("--gpu-memory-utilization", "0.92"))
    return None if 0 < share <= 1 else "gpu_memory_utilization must be greater than 0 and at most 1"


def note_start(cache: str) -> int:
    """Returns how often an engine with this cache has started, which shows whether the cache is kept."""
    if not cache:
        return 1
    file = Path(cache) / "starts"
    file.parent.mkdir(parents=True, exist_ok=True)
    count = int(file.read_text()) + 1 if file.exists() else 1
    file.write_text(str(count))
    return count


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return ""

    def do_GET(self) -> None:
        well = time.monotonic() - started > SICK_S
        self.answer(200 if self.path == "/health" and well else 503, {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if weights.get("fails"):
            return self.answer(500, {"error": {"message": "CUDA out of memory"}})
        message = {"role": "assistant", "content": "from vLLM"}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        facts = {"argv": sys.orig_argv[1:], "path": self.path, "asked": asked, "env": dict(os.environ)}
        facts["starts"] = starts
        return self.answer(200, {"id": "x", "model": "model", "choices": choices, "usage": usage, **facts})

    def answer(self, status: int, value: Any) -> None:
        data = json.dumps(value, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


if sys.argv[1].endswith(".json"):
    problem = check_arguments(sys.argv[2:], json.loads(Path(sys.argv.pop(1)).read_text()))
    if problem:
        print(f"vllm serve: error: {problem}", file=sys.stderr)
        sys.exit(2)
weights_file = Path(sys.argv[2]) / "weights.json"
weights: dict[str, Any] = json.loads(weights_file.read_text()) if weights_file.exists() else {}
starts = note_start(os.environ.get("VLLM_CACHE_ROOT", ""))
print("INFO loading the weights", flush=True)
started = time.monotonic()
Server(sys.argv[sys.argv.index("--uds") + 1], Handler).serve_forever()
