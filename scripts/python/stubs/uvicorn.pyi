# The part of uvicorn that the model servers use, which the environment of the checks does not have.
import socket
from collections.abc import Awaitable, Callable
from typing import Any

class Config:
    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        *,
        lifespan: str,
        access_log: bool,
        log_level: str,
        server_header: bool,
        date_header: bool,
        timeout_keep_alive: int,
        timeout_graceful_shutdown: int,
    ) -> None: ...

class Server:
    started: bool
    should_exit: bool
    def __init__(self, config: Config) -> None: ...
    def run(self, sockets: list[socket.socket] | None = None) -> Any: ...
    async def startup(self, sockets: list[socket.socket] | None = None) -> None: ...
