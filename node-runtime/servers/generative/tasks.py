"""Calls the diffusers pipelines for each task type, and turns their results into files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from answers import InputProblem
from generative.audio_files import audio_output
from generative.base import GenerationOutput, Prepare
from generative.fields import (
    MAX_FRAMES,
    MAX_STEPS,
    choice_of,
    integer_of,
    number_of,
    optional_text_of,
    side_of,
    text_of,
)
from generative.files import SCENE_TYPES, image_files, scene_file, video_file
from generative.job import Job, UnusableOutput
from images import fitted, image_of

# The maximum side length of an image if the request does not set its size.
MAX_SIDE = 1_024
MAX_IMAGES = 10
# The limit on the total pixels of a request's images, which must fit into one response.
MAX_PIXELS = 16_800_000
# The limit on the total pixels of a video's frames.
MAX_VIDEO_PIXELS = 128_000_000
FPS = 8
MAX_AUDIO_S = 600.0

Fields = Mapping[str, Any]


def arguments_of(pipeline: Any) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters that the pipeline accepts."""
    return inspect.signature(pipeline.__call__).parameters


def max_steps(pipeline: Any) -> int:
    """Returns the maximum number of steps of a pipeline's scheduler."""
    config = pipeline.scheduler.config
    return min(MAX_STEPS, config.get("num_train_timesteps", MAX_STEPS) - config.get("steps_offset", 0))


def diffusion_of(pipeline: Any, fields: Fields) -> dict[str, Any]:
    """Returns the arguments that all diffusion tasks share."""
    accepted = arguments_of(pipeline)
    values = {
        "num_inference_steps": integer_of(fields, "num_inference_steps", 1, max_steps(pipeline)),
        "guidance_scale": number_of(fields, "guidance_scale", 0, 100),
        "negative_prompt": optional_text_of(fields, "negative_prompt"),
        "strength": number_of(fields, "strength", 0.01, 1),
    }
    arguments = {}
    _refuse_no_step(accepted, values)
    for name, value in values.items():
        if value is None:
            continue
        argument = "max_guidance_scale" if name == "guidance_scale" and "max_guidance_scale" in accepted else name
        if argument not in accepted:
            raise InputProblem(f"this model does not accept {name}", f"/{name}")
        arguments[argument] = value
    return arguments


def _refuse_no_step(accepted: Mapping[str, inspect.Parameter], values: Mapping[str, Any]) -> None:
    """Raises `InputProblem` if no step would change the image: the strength skips some of the steps."""
    if "strength" not in accepted:
        return
    names = ("num_inference_steps", "strength")
    steps, strength = (accepted[name].default if values[name] is None else values[name] for name in names)
    if int(steps * strength) < 1:
        raise InputProblem(
            f"num_inference_steps times strength must be at least 1, and {steps} times {strength:g} is less",
            "/num_inference_steps",
        )


def prompt_of(pipeline: Any, fields: Fields) -> tuple[str, dict[str, Any]]:
    """Returns the prompt and its metadata."""
    prompt = text_of(fields, "prompt")
    tokenizer = getattr(pipeline, "tokenizer", None)
    longest = getattr(tokenizer, "model_max_length", 0)
    # A tokenizer without a limit reports a huge number.
    is_cut = (
        tokenizer is not None and 0 < longest < 100_000 and len(tokenizer(prompt, truncation=False).input_ids) > longest
    )
    return prompt, {"truncated": True} if is_cut else {}


def sides_of(fields: Fields, multiple: int) -> dict[str, int]:
    """Returns the width and height that the request sets."""
    sides = {name: side_of(fields, name, multiple) for name in ("width", "height")}
    return {name: side for name, side in sides.items() if side is not None}


def requested_image(fields: Fields, multiple: int) -> Any:
    """Returns a request's image, resized to the requested width and height (see `fitted`)."""
    sides = sides_of(fields, multiple)
    image = image_of(fields, "image_url")
    return fitted(image, sides.get("width"), sides.get("height"), multiple, MAX_SIDE)


def run(pipeline: Any, job: Job, **arguments: Any) -> Any:
    """Runs the pipeline for a job and reports its steps."""
    pipeline.progress_bar = job.progress_bar
    with torch.inference_mode():
        return pipeline(generator=job.generator(), **arguments)


def count_of(fields: Fields, sides: Mapping[str, int]) -> int:
    """Returns the requested number of images."""
    count = integer_of(fields, "num_images", 1, MAX_IMAGES) or 1
    width, height = sides.get("width", 0), sides.get("height", 0)
    if count * width * height > MAX_PIXELS:
        raise InputProblem(
            f"num_images is too large: {count} images of {width} x {height} have more than"
            f" {MAX_PIXELS / 1_000_000:g} million pixels",
            "/num_images",
        )
    return count


def generate_images(
    pipeline: Any, job: Job, count: int, metadata: Mapping[str, Any], **arguments: Any
) -> GenerationOutput:
    """Generates images one at a time, because a model's memory is reserved for one, and writes them."""
    results = [run(pipeline, part, output_type="np", **arguments) for part in job.parts(count)]
    if any(any(getattr(result, "nsfw_content_detected", None) or ()) for result in results):
        raise UnusableOutput("the model's safety checker blocked the image")
    images = np.concatenate([result.images for result in results])
    height, width = images.shape[1:3]
    return GenerationOutput(image_files(images), {**metadata, "width": width, "height": height})


def text_to_image(pipeline: Any, multiple: int) -> Prepare:
    def prepare(fields: Fields) -> Callable[[Job], GenerationOutput]:
        prompt, metadata = prompt_of(pipeline, fields)
        sides = sides_of(fields, multiple)
        count = count_of(fields, sides)
        arguments = {"prompt": prompt, **sides, **diffusion_of(pipeline, fields)}
        return lambda job: generate_images(pipeline, job, count, metadata, **arguments)

    return prepare


def image_to_image(pipeline: Any, multiple: int) -> Prepare:
    def prepare(fields: Fields) -> Callable[[Job], GenerationOutput]:
        prompt, metadata = prompt_of(pipeline, fields) if fields.get("prompt") is not None else ("", {})
        image = requested_image(fields, multiple)
        # Pipelines that accept a size would otherwise fit the image into their default size.
        accepted = arguments_of(pipeline)
        sides: dict[str, int] = dict(zip(("width", "height"), image.size, strict=True))
        count = count_of(fields, sides)
        size = {name: side for name, side in sides.items() if name in accepted}
        arguments = {"prompt": prompt, "image": image, **size, **diffusion_of(pipeline, fields)}
        return lambda job: generate_images(pipeline, job, count, metadata, **arguments)

    return prepare


def video_arguments(pipeline: Any, fields: Fields, sides: Mapping[str, int]) -> tuple[dict[str, Any], int]:
    """Returns the arguments for a video, and its frames per second."""
    accepted = arguments_of(pipeline)
    fps = integer_of(fields, "fps", 1, 60) or FPS
    frames = integer_of(fields, "num_frames", 1, MAX_FRAMES)
    arguments = {
        **diffusion_of(pipeline, fields),
        **sides,
        **({} if frames is None else {"num_frames": frames}),
        **{name: fps for name in ("fps", "frame_rate") if name in accepted},
    }
    count, width, height = (
        arguments.get(name) or accepted[name].default or 1 for name in ("num_frames", "width", "height")
    )
    if count * width * height > MAX_VIDEO_PIXELS:
        raise InputProblem(
            f"num_frames is too large: {count} frames of {width} x {height} have more than"
            f" {MAX_VIDEO_PIXELS // 1_000_000} million pixels",
            "/num_frames",
        )
    return arguments, fps


def video_output(result: Any, fps: int, metadata: Mapping[str, Any]) -> GenerationOutput:
    """Writes a result's video."""
    if len(result.frames) == 0:
        raise UnusableOutput("the model generated a video without frames")
    frames = result.frames[0]
    file = video_file(frames, fps)
    count, height, width = frames.shape[:3]
    return GenerationOutput([file], {**metadata, "num_frames": count, "fps": fps, "width": width, "height": height})


def text_to_video(pipeline: Any, multiple: int) -> Prepare:
    def prepare(fields: Fields) -> Callable[[Job], GenerationOutput]:
        prompt, metadata = prompt_of(pipeline, fields)
        arguments, fps = video_arguments(pipeline, fields, sides_of(fields, multiple))
        return lambda job: video_output(run(pipeline, job, prompt=prompt, output_type="np", **arguments), fps, metadata)

    return prepare


def image_to_video(pipeline: Any, multiple: int) -> Prepare:
    def prepare(fields: Fields) -> Callable[[Job], GenerationOutput]:
        image = requested_image(fields, multiple)
        width, height = image.size
        arguments, fps = video_arguments(pipeline, fields, {"width": width, "height": height})
        return lambda job: video_output(run(pipeline, job, image=image, output_type="np", **arguments), fps, {})

    return prepare


def text_to_audio(pipeline: Any, _: int) -> Prepare:
    rate = pipeline.vae.sampling_rate
    longest = min(MAX_AUDIO_S, pipeline.transformer.config.sample_size * pipeline.vae.hop_length / rate)

    def prepare(fields: Fields) -> Callable[[Job], GenerationOutput]:
        prompt, metadata = prompt_of(pipeline, fields)
        duration = number_of(fields, "duration_s", 0.1, longest)
        length = {} if duration is None else {"audio_end_in_s": duration}
        arguments = {"prompt": prompt, **length, **diffusion_of(pipeline, fields)}

        def generate(job: Job) -> GenerationOutput:
            audio = run(pipeline, job, **arguments).audios[0].float().cpu().numpy()
            return audio_output(audio, rate, metadata)

        return generate

    return prepare


def scene(
    pipeline: Any, fields: Fields, given: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Callable[[Job], GenerationOutput]:
    """Returns the function that generates a 3D scene from text or an image."""
    form = choice_of(fields, "format", list(SCENE_TYPES))
    arguments = {**given, **diffusion_of(pipeline, fields)}

    def generate(job: Job) -> GenerationOutput:
        result = run(pipeline, job, output_type="mesh", **arguments)
        file, counts = scene_file(result.images[0], form)
        return GenerationOutput([file], {**metadata, **counts})

    return generate


def text_to_3d(pipeline: Any, _: int) -> Prepare:
    def prepare(fields: Fields) -> Callable[[Job], GenerationOutput]:
        prompt, metadata = prompt_of(pipeline, fields)
        return scene(pipeline, fields, {"prompt": prompt}, metadata)

    return prepare


def image_to_3d(pipeline: Any, _: int) -> Prepare:
    return lambda fields: scene(pipeline, fields, {"image": image_of(fields, "image_url")}, {})


PREPARE: Mapping[str, Callable[[Any, int], Prepare]] = {
    "text-to-image": text_to_image,
    "image-to-image": image_to_image,
    "text-to-video": text_to_video,
    "image-to-video": image_to_video,
    "text-to-audio": text_to_audio,
    "text-to-3d": text_to_3d,
    "image-to-3d": image_to_3d,
}
