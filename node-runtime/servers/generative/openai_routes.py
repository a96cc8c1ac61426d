"""Requests in the language of OpenAI's clients. Gateways pass the fields on as they came, files as `data:` URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from answers import InputProblem
from generative.fields import choice_of
from generative.job import Job
from generative.model import Made, Prepare

Fields = Mapping[str, Any]
SPEECH_FORMS = ("mp3", "opus", "aac", "flac", "wav", "pcm")


@dataclass(frozen=True)
class Route:
    """A task type in other words: `names` are the fields of the task by those of the request."""

    task: str
    names: Mapping[str, str]
    # Fields of the task that are no field of the request under another name.
    more: Callable[[Fields], Fields] = lambda _: {}

    def prepare(self, prepare: Prepare) -> Prepare:
        """Returns what takes the fields of the request instead of those of the task."""

        def prepare_task(body: Fields) -> Callable[[Job], Made]:
            renamed = {name: body[known] for known, name in self.names.items() if body.get(known) is not None}
            fields = {**renamed, **self.more(body)}
            try:
                return prepare(fields)
            except InputProblem as problem:
                raise self._problem_of(problem) from None

        return prepare_task

    def _problem_of(self, problem: InputProblem) -> InputProblem:
        for known, name in self.names.items():
            if problem.path == f"/{name}" and known != name:
                return InputProblem(str(problem).replace(name, known, 1), f"/{known}")
        return problem


def _speech(body: Fields) -> Fields:
    return {"format": choice_of(body, "response_format", SPEECH_FORMS)}


ROUTES: Mapping[str, Route] = {
    "/v1/audio/speech": Route(
        "text-to-speech", {"input": "text", "voice": "voice_preset", "speed": "speed", "seed": "seed"}, _speech
    ),
}
