"""Reads a request's audio."""

from __future__ import annotations

import base64
import io
import threading
import wave
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import av
import numpy as np

from answers import InputProblem
from data_urls import data_of
from json_requests import CallerDisconnected

RATE = 16_000
MAX_SECONDS = 30 * 60
# FFmpeg's names for formats that contain the audio itself. Other formats open further files or listen on the
# network.
FORMATS = "aac,ac3,aiff,amr,ape,asf,au,avi,caf,eac3,flac,flv,matroska,mov,mp3,mpeg,mpegts,ogg,tta,voc,w64,wav,wv"


def tone() -> str:
    """Returns short audio as a `data:` URL, for the first request after a load."""
    samples = (np.sin(np.arange(RATE // 2) * (2 * np.pi * 440 / RATE)) * 8_000).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(samples.tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(file.getvalue()).decode()}"


def audio_of(body: Mapping[str, Any], field: str, disconnected: threading.Event) -> np.ndarray:
    """Returns the samples of the audio in a field: float32 from -1 to 1, one channel, 16 kHz. Raises
    `CallerDisconnected` once `disconnected` is set."""
    data = data_of(body, field)
    try:
        samples = _decode(io.BytesIO(data), field, disconnected)
    except InputProblem:
        raise
    except (av.FFmpegError, ValueError, IndexError):
        raise InputProblem(f"{field} must be audio, for example in WAV, MP3, M4A, OGG or FLAC", f"/{field}") from None
    if not np.isfinite(samples).all():
        raise InputProblem(f"{field} has samples that are not finite", f"/{field}")
    return samples


def _decode(file: io.BytesIO, field: str, disconnected: threading.Event) -> np.ndarray:
    """Decodes audio. A small file may unpack to days of audio, so decoding stops at the limit."""
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
    parts: list[np.ndarray] = []
    count = 0
    with av.open(file, mode="r", metadata_errors="ignore", options={"format_whitelist": FORMATS}) as container:
        for frame in chain(_frames(container, disconnected), [None]):
            for part in resampler.resample(frame):
                samples = part.to_ndarray().reshape(-1)
                parts.append(samples)
                count += len(samples)
            if count > MAX_SECONDS * RATE:
                raise InputProblem(f"{field} is longer than {MAX_SECONDS // 60} minutes; send it in parts", f"/{field}")
    if count == 0:
        raise InputProblem(f"{field} contains no audio", f"/{field}")
    return np.concatenate(parts).astype(np.float32) / 32_768.0


def _frames(container: av.container.InputContainer, disconnected: threading.Event) -> Iterator[av.AudioFrame]:
    """Yields the frames that can be decoded; damaged packets are skipped."""
    for packet in container.demux(container.streams.audio[0]):
        if disconnected.is_set():
            raise CallerDisconnected
        try:
            frames = packet.decode()
        except av.FFmpegError:
            continue
        yield from frames
