"""Stands in for upstream's llama-server.

It accepts the flags that upstream documents, and serves the routes that a node uses. Its answer to a chat shows the
arguments that it received.

fake_llama_server.py CLI_JSON [ARGUMENT ...]
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any


def parse(arguments: list[str], cli: dict[str, list[str]]) -> dict[str, str]:
    """Returns the flags with their values; of a repeated flag, the last one. Exits like upstream on an error."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for flag in rest:
        if flag in cli["switches"]:
            found[flag] = ""
            continue
        if flag not in cli["valued"]:
            sys.exit(f"error: invalid argument: {flag}")
        value = next(rest, None)
        if value is None:
            sys.exit(f'error while handling argument "{flag}": expected value for argument')
        found[flag] = value
    return found


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return "socket"

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer({"status": "ok"})
        elif self.path == "/v1/models":
            self.answer({"object": "list", "data": [{"id": flags["--alias"], "meta": {"n_ctx_train": 4096}}]})
        elif self.path == "/metrics" and "--metrics" in flags:
            gauges = ["requests_processing 0", "requests_deferred 0"]
            self.send("".join(f"llamacpp:{gauge}\n" for gauge in gauges).encode())
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions":
            self.send_error(404)
            return
        facts = json.dumps({"flags": flags, "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")})
        message = {"role": "assistant", "content": facts}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.answer({"object": "chat.completion", "model": asked["model"], "choices": [choice], "usage": usage})

    def answer(self, value: Any) -> None:
        self.send(json.dumps(value).encode())

    def send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


flags = parse(sys.argv[2:], json.loads(Path(sys.argv[1]).read_text()))
with open(flags["--model"], "rb") as weights:
    if weights.read(4) != b"GGUF":
        sys.exit("error: the file is not a GGUF")
if not flags["--host"].endswith(".sock"):
    sys.exit("error: only Unix sockets are supported here")
Server(flags["--host"], Handler).serve_forever()
