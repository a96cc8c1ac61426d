"""A Whisper model that whisper_convert.py has converted."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from answers import InputProblem
from faster_whisper import WhisperModel
from faster_whisper.transcribe import Segment
from json_requests import BadOutput, CallerLeft
from speech.sound import RATE, sound_of, tone

# Below this level, which is that of the noise of a good converter, nobody speaks, and what a model hears is made up.
SILENCE = 10 ** (-60 / 20)
TASKS = ("transcribe", "translate")
SHOWN = 8


class SpeechModel:
    """Weights, tokenizer and settings; one sound at a time."""

    task = "stt"

    def __init__(self, folder: Path, threads: int) -> None:
        self._model = WhisperModel(str(folder), device="auto", compute_type="default", cpu_threads=threads, local_files_only=True)
        self._languages = self._model.supported_languages

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the health check tells about the model."""
        return {"languages": len(self._languages)}

    def probe(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the first request of a load with a sound that is not silent."""
        return {**body, "audio_url": tone()}

    def __call__(self, body: Mapping[str, Any], left: threading.Event) -> dict[str, Any]:
        """Returns the text of a sound with its segments; raises `InputProblem` for a field."""
        language = body.get("language")
        if language is not None and language not in self._languages:
            some = ", ".join(sorted(self._languages)[:SHOWN]) + (", ..." if len(self._languages) > SHOWN else "")
            raise InputProblem(f"language must be one that this model knows: {some}", "/language")
        task = body.get("task", "transcribe")
        if task not in TASKS:
            raise InputProblem("task must be transcribe or translate", "/task")
        has_times = body.get("timestamps", True)
        if not isinstance(has_times, bool):
            raise InputProblem("timestamps must be true or false", "/timestamps")
        sound = sound_of(body, "audio_url")
        answer = {"duration_s": round(len(sound) / RATE, 3)}
        if _is_silent(sound):
            return {"text": "", "language": language, **answer, "segments": []}
        found, info = self._model.transcribe(
            sound, language=language, task=task, without_timestamps=not has_times, condition_on_previous_text=False
        )
        segments = []
        for segment in found:
            if left.is_set():
                raise CallerLeft
            if not _is_silent(sound[int(segment.start * RATE) : math.ceil(segment.end * RATE)]):
                segments.append(_present(segment, answer["duration_s"]))
        text = "".join(segment["text"] for segment in segments).strip()
        return {"text": text, "language": info.language, **answer, "segments": segments}


def _is_silent(sound: np.ndarray) -> bool:
    return len(sound) == 0 or float(np.sqrt(np.mean(np.square(sound, dtype=np.float64)))) < SILENCE


def _present(segment: Segment, duration: float) -> dict[str, Any]:
    """A model may place the end of a segment in the silence that fills its last window."""
    numbers = {
        "start": min(segment.start, duration),
        "end": min(segment.end, duration),
        "no_speech_prob": segment.no_speech_prob,
    }
    if not all(map(math.isfinite, numbers.values())):
        raise BadOutput("The model answered with numbers that are not finite.")
    return {**{name: round(value, 3) for name, value in numbers.items()}, "text": segment.text}
