"""Writes audio files."""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from generative.base import GenerationOutput
from generative.files import OutputFile, refuse_flat, refuse_not_finite
from generative.job import UnusableOutput

MAX_SAMPLE = 32_767
# Raw samples have no header with a sample rate; OpenAI's clients play them as mono at this rate.
PCM_RATE = 24_000


@dataclass(frozen=True)
class AudioFormat:
    """A file format: its media type, and FFmpeg's container and encoder if it needs them."""

    content_type: str
    container: str = ""
    encoder: str = ""


AUDIO_FORMATS: Mapping[str, AudioFormat] = {
    "wav": AudioFormat("audio/wav"),
    "mp3": AudioFormat("audio/mpeg", "mp3", "libmp3lame"),
    "opus": AudioFormat("audio/ogg", "ogg", "libopus"),
    "aac": AudioFormat("audio/aac", "adts", "aac"),
    "flac": AudioFormat("audio/flac", "flac", "flac"),
    "pcm": AudioFormat("audio/pcm"),
}


def audio_output(array: Any, rate: int, metadata: Mapping[str, Any], form: str = "wav") -> GenerationOutput:
    """Writes an audio file with its metadata."""
    facts = {"sample_rate": rate, "duration_s": round(array.shape[-1] / rate, 3)}
    return GenerationOutput([audio_file(array, rate, form)], {**metadata, **facts})


def audio_file(audio: Any, rate: int, form: str = "wav") -> OutputFile:
    """Writes audio of shape (channels, samples), given as numbers from -1 to 1, with 16 bits per sample if
    the format has a sample width. The default format is WAV.
    """
    array = np.atleast_2d(np.asarray(audio, dtype=np.float32))
    if array.shape[-1] == 0:
        raise UnusableOutput("the model generated audio without samples")
    refuse_not_finite(array, "audio")
    samples = np.round(np.clip(array, -1, 1) * MAX_SAMPLE).astype("<i2")
    refuse_flat(samples, "audio")
    kind = AUDIO_FORMATS[form]
    if kind.encoder:
        data = _encoded(samples, rate, kind)
    else:
        data = _wave(samples, rate) if form == "wav" else _pcm(samples, rate)
    return OutputFile(f"audio.{form}", kind.content_type, "audio", data)


def _wave(samples: Any, rate: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(samples.shape[0])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.T.tobytes())
    return out.getvalue()


def _encoded(samples: Any, rate: int, kind: AudioFormat) -> bytes:
    import av

    out = io.BytesIO()
    with av.open(out, "w", format=kind.container) as container:
        taken = av.codec.Codec(kind.encoder, "w").audio_rates
        stream = container.add_stream(kind.encoder, rate=_rate_for(rate, taken) if taken else rate)
        stream.layout = _layout(samples)
        # Each encoder accepts only frames in its own format and length.
        resampler = av.AudioResampler(
            stream.format, stream.layout, stream.rate, stream.codec_context.frame_size or None
        )
        for given in (_frame(samples, rate), None):
            for frame in resampler.resample(given):
                container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return out.getvalue()


def _pcm(samples: Any, rate: int) -> bytes:
    import av

    resampler = av.AudioResampler("s16", "mono", PCM_RATE)
    frames = [frame for given in (_frame(samples, rate), None) for frame in resampler.resample(given)]
    return b"".join(frame.to_ndarray().astype("<i2").tobytes() for frame in frames)


def _frame(samples: Any, rate: int) -> Any:
    import av

    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T).reshape(1, -1), "s16", _layout(samples))
    frame.sample_rate = rate
    return frame


def _layout(samples: Any) -> str:
    return "mono" if samples.shape[0] == 1 else "stereo"


def _rate_for(rate: int, taken: list[int]) -> int:
    """Returns the lowest supported rate that loses nothing, or else the highest rate."""
    return min((one for one in taken if one >= rate), default=max(taken))
