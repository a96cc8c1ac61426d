"""Writes an image model with random weights: `python model.py FOLDER small|real`. The real one has the shape of Stable
Diffusion 1.5, with a billion parameters."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "test" / "support" / "builders" / "models"))

import diffusers as d
import torch
import transformers as t

from tiny_generative import stable_diffusion


def main() -> None:
    """Writes the model."""
    folder, size = sys.argv[1:]
    torch.manual_seed(0)
    pipeline = stable_diffusion()
    if size == "real":
        text = t.CLIPTextConfig(
            vocab_size=514, hidden_size=768, intermediate_size=3072, num_attention_heads=12, num_hidden_layers=12,
            bos_token_id=512, eos_token_id=513, pad_token_id=513,
        )  # fmt: skip
        channels = (128, 256, 512, 512)
        down, up = (["DownEncoderBlock2D"] * 4, ["UpDecoderBlock2D"] * 4)
        pipeline = d.StableDiffusionPipeline(
            **{
                **pipeline.components,
                "unet": d.UNet2DConditionModel(sample_size=64, cross_attention_dim=768),
                "text_encoder": t.CLIPTextModel(text),
                "vae": d.AutoencoderKL(
                    block_out_channels=channels,
                    down_block_types=down,
                    up_block_types=up,
                    layers_per_block=2,
                    latent_channels=4,
                ),
            },
            requires_safety_checker=False,
        )
    pipeline.save_pretrained(folder, safe_serialization=True)


main()
