"""Starts like vLLM: `python -m vllm.entrypoints.cli.main serve DIR --uds PATH`. Prints no ready line, and becomes
healthy after a while."""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler
from socketserver import UnixStreamServer
from typing import Any

SICK_S = 1.0


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
        self.answer(200, {"argv": sys.orig_argv[1:], "path": self.path, "asked": asked, "env": dict(os.environ)})

    def answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


print("INFO loading the weights", flush=True)
started = time.monotonic()
UnixStreamServer(sys.argv[sys.argv.index("--uds") + 1], Handler).serve_forever()
