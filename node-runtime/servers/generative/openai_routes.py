"""Requests in the format of OpenAI's clients. Gateways forward the fields unchanged, and files as `data:` URLs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from answers import InputProblem
from generative.base import GenerationOutput, Prepare
from generative.fields import choice_of
from generative.job import Job

Fields = Mapping[str, Any]
SIZE = re.compile(r"(\d{2,4})x(\d{2,4})", re.ASCII)
SIDES = {"width": "size", "height": "size"}
# Our own fields, in addition to OpenAI's.
DIFFUSION = ("negative_prompt", "num_inference_steps", "guidance_scale", "strength", "seed")
SPEECH_FORMS = ("mp3", "opus", "aac", "flac", "wav", "pcm")


@dataclass(frozen=True)
class Route:
    """A task type with a request's own field names: `names` maps these to the fields of the task."""

    task: str
    names: Mapping[str, str]
    # Derives further fields of the task from those of the request.
    more: Callable[[Fields], Fields] = lambda _: {}
    # Maps these further fields to the request fields that they are derived from.
    origins: Mapping[str, str] = field(default_factory=dict[str, str])

    def prepare(self, prepare: Prepare) -> Prepare:
        """Wraps `prepare`, so that it accepts the fields of the request instead of those of the task."""

        def prepare_task(body: Fields) -> Callable[[Job], GenerationOutput]:
            renamed = {name: body[known] for known, name in self.names.items() if body.get(known) is not None}
            fields = {**renamed, **self.more(body)}
            try:
                return prepare(fields)
            except InputProblem as problem:
                raise self._problem_of(problem) from None

        return prepare_task

    def _problem_of(self, problem: InputProblem) -> InputProblem:
        origins = {**self.origins, **{name: known for known, name in self.names.items()}}
        name = problem.path.removeprefix("/")
        known = origins.get(name, name)
        return problem if known == name else InputProblem(str(problem).replace(name, known, 1), f"/{known}")


def _speech(body: Fields) -> Fields:
    return {"format": choice_of(body, "response_format", SPEECH_FORMS)}


def _sides(body: Fields) -> Fields:
    size = body.get("size")
    if size in (None, "auto"):
        return {}
    sides = SIZE.fullmatch(size) if isinstance(size, str) else None
    if not sides:
        raise InputProblem("size must be auto, or a width and a height, for example 512x512", "/size")
    return {"width": int(sides[1]), "height": int(sides[2])}


def _image_route(task: str, **names: str) -> Route:
    return Route(task, {"n": "num_images", **{name: name for name in DIFFUSION}, **names}, _sides, SIDES)


ROUTES: Mapping[str, Route] = {
    "/v1/images/generations": _image_route("text-to-image", prompt="prompt"),
    "/v1/images/edits": _image_route("image-to-image", prompt="prompt", image="image_url"),
    "/v1/images/variations": _image_route("image-to-image", image="image_url"),
    "/v1/audio/speech": Route(
        "text-to-speech", {"input": "text", "voice": "voice_preset", "speed": "speed", "seed": "seed"}, _speech
    ),
}
