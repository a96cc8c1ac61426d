"""The folder in which a node and a model server exchange payload files."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Any, cast

PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class BadPayload(Exception):
    """An unusable payload; `failure` is the platform's code for the reason."""

    def __init__(self, failure: str, text: str) -> None:
        super().__init__(text)
        self.failure = failure


class Exchange:
    """Resolves paths in the exchange folder only."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def path_of(self, name: Any) -> Path:
        """Returns the path of a payload by its plain name."""
        if self._folder is None:
            raise BadPayload("refused", "this server has no folder for payloads")
        if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
            raise BadPayload("refused", "file must be the plain name of a file in the exchange folder")
        return self._folder / name

    def verified(self, name: Any, size_bytes: Any, sha256: Any) -> Path:
        """Returns the path of a payload whose bytes have the announced digest."""
        path = self.path_of(name)
        try:
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise BadPayload("payload_gone", "there is no such file in the exchange folder") from error
        with open(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                raise BadPayload("refused", "the payload is not a regular file")
            if found.st_size != size_bytes:
                raise BadPayload("size_mismatch", f"the payload has {found.st_size} bytes, not {size_bytes}")
            # Only llm_server.py calls this, and its environment has Python 3.11 or newer, unlike the checks'
            # environment.
            digest = cast(Any, hashlib).file_digest(file, "sha256")
            if digest.hexdigest() != sha256:
                raise BadPayload("digest_mismatch", "the bytes of the payload do not have the announced digest")
        return path
