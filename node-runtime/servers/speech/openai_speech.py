"""Speech to text in the format of OpenAI's clients. Gateways convert the clients' forms to JSON, with the
file as a `data:` URL, and convert the verbose response to the other formats.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from faster_whisper.transcribe import Segment

from answers import InputProblem
from sequential_app import Route
from speech.audio import audio_of
from speech.whisper import SpeechModel, Transcript, numbers_of

TASKS = {"/v1/audio/transcriptions": "transcribe", "/v1/audio/translations": "translate"}
FACTS = ("start", "end", "avg_logprob", "compression_ratio", "no_speech_prob", "temperature")
GRANULARITIES = "timestamp_granularities[]"


def openai_routes(model: SpeechModel) -> dict[str, Route]:
    """Returns the routes of a model by path."""
    return {path: partial(_transcribe, model, task) for path, task in TASKS.items()}


def _transcribe(
    model: SpeechModel, task: str, body: Mapping[str, Any], disconnected: threading.Event
) -> dict[str, Any]:
    language = model.language_of(body)
    wanted = body.get(GRANULARITIES) or ["segment"]
    options = {**_prompt(body), **_temperature(body), "word_timestamps": "word" in wanted}
    samples = audio_of(body, "file", disconnected)
    try:
        transcript = model.transcribe(samples, disconnected, language=language, task=task, **options)
    except RuntimeError as problem:
        # The library raises this for a model whose description lacks the heads that align text with audio.
        if "alignment" not in str(problem):
            raise
        raise InputProblem(
            f"{GRANULARITIES} must be segment: this model has no word timestamps", f"/{GRANULARITIES}"
        ) from None
    facts = {"task": task, "language": transcript.language, "duration": transcript.duration_s, "text": transcript.text}
    parts: dict[str, Any] = {}
    if "segment" in wanted:
        parts["segments"] = [_segment(index, segment, transcript) for index, segment in enumerate(transcript.segments)]
    if "word" in wanted:
        words = [word for segment in transcript.segments for word in segment.words or ()]
        parts["words"] = [
            {"word": word.word.strip(), **numbers_of(word, transcript, ("start", "end"))} for word in words
        ]
    # Audio usage is measured in duration.
    return {**facts, **parts, "usage": {"type": "duration", "seconds": transcript.duration_s}}


def _segment(index: int, segment: Segment, transcript: Transcript) -> dict[str, Any]:
    return {
        "id": index,
        "seek": segment.seek,
        "text": segment.text,
        "tokens": segment.tokens,
        **numbers_of(segment, transcript, FACTS),
    }


def _prompt(body: Mapping[str, Any]) -> dict[str, Any]:
    prompt = body.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise InputProblem("prompt must be a string", "/prompt")
    return {"initial_prompt": prompt} if prompt else {}


def _temperature(body: Mapping[str, Any]) -> dict[str, Any]:
    """Zero, like a missing value, lets the library raise the temperature if the text seems wrong."""
    value = body.get("temperature")
    if value is not None and (not isinstance(value, (int, float)) or not 0 <= value <= 1):
        raise InputProblem("temperature must be a number from 0 to 1", "/temperature")
    return {"temperature": float(value)} if value else {}
