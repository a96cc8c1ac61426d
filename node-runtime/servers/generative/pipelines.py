"""Diffusers pipelines. We serve only the listed ones, because a folder names its pipeline class, and a class
is code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from accelerator import is_on_gpu
from generative.base import BadModel, GenerativeModel
from generative.tasks import PREPARE
from light_torch import without_compiler, without_quantization


@contextmanager
def light_imports() -> Iterator[None]:
    """On a CPU, diffusers uses neither the compiler nor bitsandbytes; importing them takes half of the loading time."""
    if is_on_gpu():
        yield
        return
    with without_compiler(), without_quantization():
        yield


with light_imports():
    import diffusers

diffusers.utils.logging.set_verbosity_error()
diffusers.utils.logging.disable_progress_bar()


@dataclass(frozen=True)
class Served:
    """The class that serves one task type of a pipeline. Widths and heights must be multiples of `multiple` pixels."""

    pipeline: str
    multiple: int = 8


def image_tasks(name: str, multiple: int = 8) -> Mapping[str, Served]:
    """Returns an image model's two task types, which it serves from the same weights."""
    stem = name.removesuffix("Pipeline")
    return {
        "text-to-image": Served(name, multiple),
        "image-to-image": Served(f"{stem}Img2ImgPipeline", multiple),
    }


# Keyed by the `_class_name` in model_index.json.
FAMILIES: Mapping[str, Mapping[str, Served]] = {
    "StableDiffusionPipeline": image_tasks("StableDiffusionPipeline"),
    "StableDiffusionXLPipeline": image_tasks("StableDiffusionXLPipeline"),
    "FluxPipeline": image_tasks("FluxPipeline", 16),
    "AnimateDiffPipeline": {"text-to-video": Served("AnimateDiffPipeline")},
    "LTXPipeline": {"text-to-video": Served("LTXPipeline", 32)},
    "WanPipeline": {"text-to-video": Served("WanPipeline", 16)},
    "StableVideoDiffusionPipeline": {"image-to-video": Served("StableVideoDiffusionPipeline")},
    "StableAudioPipeline": {"text-to-audio": Served("StableAudioPipeline")},
    "ShapEPipeline": {"text-to-3d": Served("ShapEPipeline")},
    "ShapEImg2ImgPipeline": {"image-to-3d": Served("ShapEImg2ImgPipeline")},
}


# diffusers imports its parts on first use.
@light_imports()
def load_pipeline(folder: Path, index: Mapping[str, Any]) -> GenerativeModel:
    """Loads a folder's pipeline, from safetensors only."""
    name = str(index.get("_class_name", ""))
    family = FAMILIES.get(name)
    if family is None:
        raise BadModel(f"its model_index.json names the pipeline {name or 'none'}, which is not supported here")
    refuse_own_code(index)
    on_gpu = is_on_gpu()
    loaded = getattr(diffusers, name).from_pretrained(
        folder,
        local_files_only=True,
        use_safetensors=True,
        dtype=torch.bfloat16 if on_gpu else torch.float32,
        variant=variant_of(folder),
    )
    loaded = loaded.to("cuda" if on_gpu else "cpu")
    tasks = {}
    for task, served in family.items():
        is_own = served.pipeline == name
        pipeline = loaded if is_own else getattr(diffusers, served.pipeline).from_pipe(loaded)
        tasks[task] = PREPARE[task](pipeline, served.multiple)
    return GenerativeModel(name, tasks)


def refuse_own_code(index: Mapping[str, Any]) -> None:
    """Raises `BadModel` for a component that comes from neither diffusers nor transformers."""
    for part, source in index.items():
        if part.startswith("_") or not isinstance(source, list) or len(source) != 2:
            continue
        library = source[0]
        is_known = library in (None, "diffusers", "transformers") or hasattr(diffusers.pipelines, str(library))
        if not is_known:
            raise BadModel(f"its component {part} is custom code ({library}), which this server does not run")


def variant_of(folder: Path) -> str | None:
    """Returns `fp16` if the folder contains its weights only in that variant."""
    names = [path.name for path in folder.rglob("*.safetensors")]
    return "fp16" if names and all(".fp16." in name for name in names) else None
