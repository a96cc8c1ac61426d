"""The types that the server and the models of every library share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from generative.files import OutputFile
from generative.job import Job


class BadModel(Exception):
    """This server can't serve the folder's model; the message says why."""


@dataclass
class GenerationOutput:
    """The output of a generation."""

    files: list[OutputFile]
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


# Checks a request's fields, and returns the function that generates the output.
Prepare = Callable[[Mapping[str, Any]], Callable[[Job], GenerationOutput]]


@dataclass
class GenerativeModel:
    """The pipeline of each task type; the first is the weights' primary task."""

    name: str
    tasks: Mapping[str, Prepare]
