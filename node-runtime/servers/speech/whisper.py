"""A Whisper model that whisper_convert.py has converted."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.transcribe import Segment

from answers import InputProblem
from json_requests import BadOutput, CallerDisconnected
from speech.audio import RATE, audio_of, tone

# Below this level (the noise of a good converter) there is no speech, and a model would invent some.
SILENCE = 10 ** (-60 / 20)
TASKS = ("transcribe", "translate")
SHOWN = 8


@dataclass(frozen=True)
class Transcript:
    """A transcription's segments, except the silent ones."""

    language: str | None
    duration_s: float
    segments: list[Segment] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of all segments."""
        return "".join(segment.text for segment in self.segments).strip()


class SpeechModel:
    """Weights, tokenizer and settings; one audio file at a time."""

    task = "stt"

    def __init__(self, folder: Path, threads: int) -> None:
        self._model = WhisperModel(
            str(folder), device="cpu", compute_type="default", cpu_threads=threads, local_files_only=True
        )
        self._languages = self._model.supported_languages

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the health check reports about the model."""
        return {"languages": len(self._languages)}

    def probe(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds audio that isn't silent to the first request after a load."""
        return {**body, "audio_url": tone()}

    def __call__(self, body: Mapping[str, Any], disconnected: threading.Event) -> dict[str, Any]:
        """Transcribes an audio file, with its segments; raises `InputProblem` for an invalid field."""
        language = self.language_of(body)
        task = body.get("task", "transcribe")
        if task not in TASKS:
            raise InputProblem("task must be transcribe or translate", "/task")
        has_times = body.get("timestamps", True)
        if not isinstance(has_times, bool):
            raise InputProblem("timestamps must be true or false", "/timestamps")
        samples = audio_of(body, "audio_url", disconnected)
        transcript = self.transcribe(
            samples, disconnected, language=language, task=task, without_timestamps=not has_times
        )
        shown = ("start", "end", "no_speech_prob")
        segments = [{**numbers_of(segment, transcript, shown), "text": segment.text} for segment in transcript.segments]
        return {
            "text": transcript.text,
            "language": transcript.language,
            "duration_s": transcript.duration_s,
            "segments": segments,
        }

    def language_of(self, body: Mapping[str, Any]) -> str | None:
        """Returns the language of a request, if it names one."""
        language = body.get("language")
        if language is not None and language not in self._languages:
            some = ", ".join(sorted(self._languages)[:SHOWN]) + (", ..." if len(self._languages) > SHOWN else "")
            raise InputProblem(f"language must be one that this model supports: {some}", "/language")
        return language

    def transcribe(
        self, samples: np.ndarray, disconnected: threading.Event, *, language: str | None, **options: Any
    ) -> Transcript:
        """Transcribes audio with the library's options. Raises `CallerDisconnected` once `disconnected` is
        set.
        """
        duration = round(len(samples) / RATE, 3)
        if _is_silent(samples):
            return Transcript(language, duration)
        found, info = self._model.transcribe(samples, language=language, condition_on_previous_text=False, **options)
        segments = []
        for segment in found:
            if disconnected.is_set():
                raise CallerDisconnected
            if not _is_silent(samples[int(segment.start * RATE) : math.ceil(segment.end * RATE)]):
                segments.append(segment)
        return Transcript(info.language, duration, segments)


def numbers_of(part: Any, transcript: Transcript, names: tuple[str, ...]) -> dict[str, float]:
    """Returns a segment's or a word's numbers. Times are capped at the audio's duration, because a model may
    place an end in the silence that pads its last window.
    """
    numbers = {name: getattr(part, name) for name in names}
    if not all(map(math.isfinite, numbers.values())):
        raise BadOutput("The model returned numbers that are not finite.")
    bounds = {name: min(numbers[name], transcript.duration_s) for name in ("start", "end") if name in numbers}
    return {name: round(float(value), 3) for name, value in {**numbers, **bounds}.items()}


def _is_silent(samples: np.ndarray) -> bool:
    return len(samples) == 0 or float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) < SILENCE
