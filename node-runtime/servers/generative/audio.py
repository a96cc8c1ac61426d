"""Audio models from transformers: VITS for speech, MusicGen for music."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accelerator import is_on_gpu
from answers import InputProblem
from generative.audio_files import AUDIO_FORMATS, audio_output
from generative.base import BadModel, GenerationOutput, GenerativeModel, Prepare
from generative.fields import choice_of, number_of, optional_text_of, text_of
from generative.job import Job
from light_torch import without_compiler

with without_compiler():
    from transformers import (
        AutoTokenizer,
        MusicgenForConditionalGeneration,
        StoppingCriteria,
        StoppingCriteriaList,
        VitsModel,
    )
    from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

USUAL_MUSIC_S = 5.0
# The memory of a speech model grows with the square of the text length.
MAX_PIECE = 400
SENTENCE_END = re.compile(r"""[.!?…]["'”’)\]]*(?=\s)|[。！？\n]""")
SPACE = re.compile(r"\s")


def load_audio_model(folder: Path, config: Mapping[str, Any]) -> GenerativeModel:
    """Loads a folder's audio model, from safetensors only."""
    kind = str(config.get("model_type", ""))
    if kind not in LOADERS:
        raise BadModel(f"its config.json names a model of the type {kind or 'none'}, which is not supported here")
    model_class, task, prepare = LOADERS[kind]
    model = model_class.from_pretrained(folder, local_files_only=True, use_safetensors=True, dtype=torch.float32)
    model = model.to("cuda" if is_on_gpu() else "cpu").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return GenerativeModel(model_class.__name__, {task: prepare(model, tokenizer)})


def text_to_speech(model: Any, tokenizer: Any) -> Prepare:
    speakers = max(1, model.config.num_speakers)

    def prepare(fields: Mapping[str, Any]) -> Callable[[Job], GenerationOutput]:
        text = text_of(fields, "text")
        speaker = speaker_of(fields, speakers)
        form = choice_of(fields, "format", list(AUDIO_FORMATS))
        speed = number_of(fields, "speed", 0.25, 4) or 1.0
        tokenized = [tokenizer(piece, return_tensors="pt") for piece in pieces_of(text)]
        # The tokenizer puts a pause around every letter, so text without letters becomes a single pause.
        spoken = [tokens for tokens in tokenized if tokens.input_ids.shape[-1] > 1]
        if not spoken:
            raise InputProblem("text contains nothing that this model can speak", "/text")
        chosen = {"speaker_id": speaker} if speakers > 1 else {}
        pace = speed * model.speaking_rate

        def generate(job: Job) -> GenerationOutput:
            torch.manual_seed(job.seed)
            waveforms = []
            for done, tokens in enumerate(spoken, 1):
                with torch.inference_mode():
                    waveform = model(**tokens.to(model.device), **chosen, speaking_rate=pace).waveform
                waveforms.append(waveform[0].float().cpu().numpy())
                job.step(done, len(spoken))
            return audio_output(
                np.concatenate(waveforms, axis=-1), model.config.sampling_rate, {"voice": str(speaker)}, form
            )

        return generate

    return prepare


def pieces_of(text: str) -> Iterator[str]:
    """Splits text at the ends of sentences, or between words if a sentence is too long."""
    while len(text) > MAX_PIECE:
        beginning = text[: MAX_PIECE + 1]
        ends = [[found.end() for found in pattern.finditer(beginning)] for pattern in (SENTENCE_END, SPACE)]
        end = min(next((some[-1] for some in ends if some), MAX_PIECE), MAX_PIECE)
        yield text[:end]
        text = text[end:]
    if text:
        yield text


def speaker_of(fields: Mapping[str, Any], speakers: int) -> int:
    """Returns a speaker's number; a name selects the first speaker, because these models don't name their
    speakers.
    """
    voice = optional_text_of(fields, "voice_preset") or "0"
    if not (voice.isascii() and voice.isdecimal()):
        return 0
    if int(voice) >= speakers:
        raise InputProblem(f"voice_preset must be the number of a speaker from 0 to {speakers - 1}", "/voice_preset")
    return int(voice)


class Steps(StoppingCriteria):
    """Reports every token, and stops when the caller disconnects."""

    def __init__(self, job: Job, total: int) -> None:
        self._job = job
        self._total = total
        self._done = 0

    def __call__(self, input_ids: torch.Tensor, _scores: Any, **__: Any) -> torch.Tensor:
        self._done += 1
        self._job.step(self._done, self._total)
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


def text_to_audio(model: Any, tokenizer: Any) -> Prepare:
    rate = model.config.audio_encoder.sampling_rate
    per_second = model.config.audio_encoder.frame_rate
    codebooks = model.decoder.num_codebooks
    # Positions are computed, so longer audio would work, but the model wasn't trained for it.
    longest = model.generation_config.max_length / per_second

    def prepare(fields: Mapping[str, Any]) -> Callable[[Job], GenerationOutput]:
        prompt = text_of(fields, "prompt")
        duration = number_of(fields, "duration_s", 0.1, longest) or min(USUAL_MUSIC_S, longest)
        guidance = number_of(fields, "guidance_scale", 1, 100)
        tokens = tokenizer(prompt, return_tensors="pt", truncation=True)
        # Each codebook is one step behind the previous one.
        total = max(1, round(duration * per_second)) + codebooks - 1
        options = {} if guidance is None else {"guidance_scale": guidance}

        def generate(job: Job) -> GenerationOutput:
            torch.manual_seed(job.seed)
            steps = StoppingCriteriaList([Steps(job, total)])
            with torch.inference_mode():
                values = model.generate(
                    **tokens.to(model.device),
                    do_sample=True,
                    max_new_tokens=total,
                    stopping_criteria=steps,
                    **options,
                )
            return audio_output(values[0].float().cpu().numpy(), rate, {})

        return generate

    return prepare


LOADERS: Mapping[str, tuple[Any, str, Callable[[Any, Any], Prepare]]] = {
    "vits": (VitsModel, "text-to-speech", text_to_speech),
    "musicgen": (MusicgenForConditionalGeneration, "text-to-audio", text_to_audio),
}
