"""The base of the Python model servers. They are plain ASGI applications: with so few routes, they don't need
a framework.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

import orjson
import uvicorn

from gpu_loss import App, Receive, Send, until_gpu_is_lost

GRACE_S = 5
# The exit status of a server whose weights cannot be loaded on any node; see README.md.
UNUSABLE_STATUS = 65


class BodyTooLarge(Exception):
    """The request body is larger than this server accepts."""


def refuse_weights(why: str) -> NoReturn:
    """Prints the one line that explains why no node can load the weights, and exits."""
    print(f"its weights cannot be used: {' '.join(why.split())}", file=sys.stderr, flush=True)
    sys.exit(UNUSABLE_STATUS)


def server_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the server's address and its shutdown."""
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 picks any free port and prints it")
    parser.add_argument("--socket", help="listen on this Unix socket instead")
    parser.add_argument("--exit-with-parent", action="store_true", help="exit when standard input closes")


async def read_body(receive: Receive, largest: int) -> bytes:
    """Reads the whole body of a request."""
    message = await receive()
    if not message.get("more_body"):
        body = message.get("body", b"")
        if len(body) > largest:
            raise BodyTooLarge
        return body
    parts = [message.get("body", b"")]
    size = len(parts[0])
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > largest:
            raise BodyTooLarge
    return b"".join(parts)


async def until_disconnected(receive: Receive, disconnected: threading.Event) -> None:
    """Waits until the caller of a request disconnects, then sets `disconnected`. Call it after reading the
    body.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnected.set()


async def send_json(send: Send, status: int, body: Any) -> None:
    """Sends one complete response."""
    payload = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(payload)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload})


async def send_text(send: Send, text: str) -> None:
    """Sends a plain text with status 200."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


def serve(app: App, options: argparse.Namespace) -> None:
    """Listens, prints the ready line on standard output, and serves until SIGTERM or the loss of its GPU."""
    # The server finishes the requests in flight and then raises the signal again, which is a normal exit.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    listener = _listen(options)
    where: dict[str, Any] = {"socket": options.socket} if options.socket else {"port": listener.getsockname()[1]}
    config = uvicorn.Config(
        until_gpu_is_lost(app),
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_keep_alive=600,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, where)
    if options.exit_with_parent:
        threading.Thread(target=_watch_parent, args=(server,), daemon=True).start()
    server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Prints the ready line with its address on standard output once it listens."""

    def __init__(self, config: uvicorn.Config, ready: dict[str, Any]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(orjson.dumps({"event": "ready", **self._ready}).decode(), flush=True)


def _listen(options: argparse.Namespace) -> socket.socket:
    if options.socket:
        Path(options.socket).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(options.socket)
    else:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        # asyncio disables Nagle's algorithm only if the protocol is specified. The algorithm delays a
        # response sent in two writes by 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((options.host, options.port))
    listener.listen(512)
    return listener


def _watch_parent(server: uvicorn.Server) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    server.should_exit = True
