"""Writes a tiny generative model with random weights: `python tiny_generative.py FOLDER --kind
stable-diffusion [--seed 0] [--fault flat|nan]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers as d
import torch
import transformers as t
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

TEXTS = ["a red ball on a blue table", "waves at dusk, calm and slow", "hello world, how are you today?"]


def clip_text(hidden: int = 32, *, projects: bool = False) -> Any:
    """Returns a CLIP text encoder."""
    config = t.CLIPTextConfig(
        vocab_size=514,
        hidden_size=hidden,
        intermediate_size=37,
        num_attention_heads=4,
        num_hidden_layers=2,
        projection_dim=hidden,
        bos_token_id=512,
        eos_token_id=513,
        pad_token_id=513,
    )
    return (t.CLIPTextModelWithProjection if projects else t.CLIPTextModel)(config)


def clip_tokenizer() -> t.CLIPTokenizer:
    """Returns a tokenizer with bytes as its vocabulary."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return t.CLIPTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], model_max_length=77)


def clip_vision(size: int, *, projects: int | None = None) -> Any:
    """Returns a CLIP image encoder."""
    config = t.CLIPVisionConfig(
        hidden_size=32,
        image_size=size,
        patch_size=16,
        intermediate_size=37,
        num_attention_heads=4,
        num_hidden_layers=2,
        projection_dim=projects or 32,
    )
    return (t.CLIPVisionModelWithProjection if projects else t.CLIPVisionModel)(config)


def clip_images(size: int) -> Any:
    """Returns the image preprocessing for a CLIP encoder."""
    return CLIPImageProcessorPil(size={"shortest_edge": size}, crop_size={"height": size, "width": size})


def t5() -> tuple[Any, Any]:
    """Returns a T5 text encoder and its tokenizer."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        TEXTS,
        trainers.UnigramTrainer(vocab_size=60, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>"),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    fast = t.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=64
    )
    config = t.T5Config(
        vocab_size=128, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0,
    )  # fmt: skip
    return t.T5EncoderModel(config), fast


def autoencoder() -> Any:
    """Returns the image autoencoder. Its factor is 2, although pipelines request multiples of 8."""
    return d.AutoencoderKL(
        block_out_channels=[32, 64],
        in_channels=3,
        out_channels=3,
        down_block_types=["DownEncoderBlock2D", "DownEncoderBlock2D"],
        up_block_types=["UpDecoderBlock2D", "UpDecoderBlock2D"],
        latent_channels=4,
    )


def unet(**more: Any) -> Any:
    """Returns the image denoiser."""
    return d.UNet2DConditionModel(
        block_out_channels=(32, 64),
        layers_per_block=2,
        sample_size=32,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        **{"cross_attention_dim": 32, **more},
    )


def stable_diffusion() -> Any:
    return d.StableDiffusionPipeline(
        unet=unet(),
        scheduler=d.DDIMScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            clip_sample=False,
            set_alpha_to_one=False,
        ),
        vae=autoencoder(),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def ltx() -> Any:
    text_encoder, tokenizer = t5()
    return d.LTXPipeline(
        transformer=d.LTXVideoTransformer3DModel(
            in_channels=8, out_channels=8, patch_size=1, patch_size_t=1, num_attention_heads=4, attention_head_dim=8,
            cross_attention_dim=32, num_layers=1, caption_channels=32,
        ),
        vae=d.AutoencoderKLLTXVideo(
            in_channels=3, out_channels=3, latent_channels=8, block_out_channels=(8, 8, 8, 8),
            decoder_block_out_channels=(8, 8, 8, 8), layers_per_block=(1, 1, 1, 1, 1),
            decoder_layers_per_block=(1, 1, 1, 1, 1), spatio_temporal_scaling=(True, True, False, False),
            decoder_spatio_temporal_scaling=(True, True, False, False),
            decoder_inject_noise=(False, False, False, False, False), upsample_residual=(False, False, False, False),
            upsample_factor=(1, 1, 1, 1), timestep_conditioning=False, patch_size=1, patch_size_t=1,
            encoder_causal=True, decoder_causal=False,
        ),
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
        text_encoder=text_encoder,
        tokenizer=tokenizer,
    )  # fmt: skip


def video_diffusion() -> Any:
    return d.StableVideoDiffusionPipeline(
        unet=d.UNetSpatioTemporalConditionModel(
            block_out_channels=(32, 64), layers_per_block=2, sample_size=32, in_channels=8, out_channels=4,
            down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"), cross_attention_dim=32,
            num_attention_heads=8, projection_class_embeddings_input_dim=96, addition_time_embed_dim=32,
        ),
        image_encoder=clip_vision(224, projects=32),
        scheduler=d.EulerDiscreteScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", interpolation_type="linear",
            num_train_timesteps=1000, prediction_type="v_prediction", sigma_max=700.0, sigma_min=0.002,
            steps_offset=1, timestep_spacing="leading", timestep_type="continuous", trained_betas=None,
            use_karras_sigmas=True,
        ),
        vae=d.AutoencoderKLTemporalDecoder(
            block_out_channels=[32, 64], in_channels=3, out_channels=3, latent_channels=4,
            down_block_types=["DownEncoderBlock2D", "DownEncoderBlock2D"],
        ),
        feature_extractor=clip_images(224),
    )  # fmt: skip


def triangles(case: int) -> list[tuple[int, int, int]]:
    """Returns triangles between the edges of a cube whose ends differ: not a good surface, but a valid one."""
    # The corner (x, y, z) is bit x + 2y + 4z; the edges along x come first, then y, then z.
    ends = [
        *((2 * y + 4 * z, 1 + 2 * y + 4 * z) for z in (0, 1) for y in (0, 1)),
        *((x + 4 * z, x + 2 + 4 * z) for z in (0, 1) for x in (0, 1)),
        *((x + 2 * y, x + 2 * y + 4) for y in (0, 1) for x in (0, 1)),
    ]
    crossed = [edge for edge, (a, b) in enumerate(ends) if (case >> a & 1) != (case >> b & 1)]
    # Only for cubes whose first corner differs from the rest; that's enough for a valid file.
    return [(crossed[0], crossed[1], crossed[2])] if case in (1, 254) else []


def shap_e_renderer() -> Any:
    """Returns the scene renderer. Its marching cubes tables are part of the weights."""
    shapes = ((8, 93), (8, 8), (8, 8), (8, 8))
    renderer = d.pipelines.shap_e.renderer.ShapERenderer(
        param_shapes=shapes, d_latent=16, d_hidden=8, n_output=12, background=(0.1, 0.1, 0.1)
    )
    decoder = renderer.mesh_decoder
    for case in range(256):
        for place, triangle in enumerate(triangles(case)):
            decoder.cases[case, place] = torch.tensor(triangle)
            decoder.masks[case, place] = True
    return renderer


def shap_e_prior(embedding: int) -> Any:
    return d.PriorTransformer(
        num_attention_heads=2, attention_head_dim=16, embedding_dim=16 * 1, num_embeddings=32,
        embedding_proj_dim=embedding, time_embed_dim=64, num_layers=1, clip_embed_dim=32, additional_embeddings=0,
        time_embed_act_fn="gelu", norm_in_type="layer", encoder_hid_proj_type=None, added_emb_type=None,
        embedding_proj_norm_type=None if embedding == 16 else "layer",
    )  # fmt: skip


def heun() -> Any:
    return d.HeunDiscreteScheduler(
        beta_schedule="exp", num_train_timesteps=1024, prediction_type="sample", use_karras_sigmas=True,
        clip_sample=True, clip_sample_range=1.0,
    )  # fmt: skip


def shap_e() -> Any:
    return d.ShapEPipeline(
        prior=shap_e_prior(16),
        text_encoder=clip_text(16, projects=True),
        tokenizer=clip_tokenizer(),
        scheduler=heun(),
        shap_e_renderer=shap_e_renderer(),
    )


def shap_e_image() -> Any:
    return d.ShapEImg2ImgPipeline(
        prior=shap_e_prior(32),
        image_encoder=clip_vision(32),
        image_processor=clip_images(32),
        scheduler=heun(),
        shap_e_renderer=shap_e_renderer(),
    )


def vits(folder: Path) -> None:
    vocab = {piece: i for i, piece in enumerate(["_", *" abcdefghijklmnopqrstuvwxyz'-", "<unk>"])}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    tokenizer = t.VitsTokenizer(str(folder / "vocab.json"), pad_token="_", phonemize=False, is_uroman=False)
    config = t.VitsConfig(
        vocab_size=len(vocab), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=16,
        flow_size=16, spectrogram_bins=9, prior_encoder_num_flows=2, prior_encoder_num_wavenet_layers=1,
        duration_predictor_num_flows=2, duration_predictor_filter_channels=16, depth_separable_num_layers=1,
        posterior_encoder_num_wavenet_layers=1, upsample_initial_channel=16, upsample_rates=[8, 8],
        upsample_kernel_sizes=[16, 16], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]],
        num_speakers=3, speaker_embedding_size=8,
    )  # fmt: skip
    t.VitsModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def musicgen(folder: Path) -> None:
    encoder, tokenizer = t5()
    config = t.MusicgenConfig(
        text_encoder=encoder.config.to_dict(),
        audio_encoder=t.EncodecConfig(
            sampling_rate=8000, audio_channels=1, num_filters=4, hidden_size=16, codebook_size=64, codebook_dim=16,
            num_lstm_layers=1, upsampling_ratios=[5, 4, 4, 2], target_bandwidths=[1.2], normalize=False,
        ).to_dict(),
        decoder=t.MusicgenDecoderConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, ffn_dim=32, num_codebooks=4,
            pad_token_id=64, bos_token_id=64, max_position_embeddings=2048,
        ).to_dict(),
    )  # fmt: skip
    model = t.MusicgenForConditionalGeneration(config)
    model.generation_config = t.GenerationConfig(
        decoder_start_token_id=64, pad_token_id=64, bos_token_id=64, do_sample=True, guidance_scale=3.0, max_length=1500
    )
    for layer in model.audio_encoder.quantizer.layers:
        # A new codebook is all zeros, which would make all audio equal.
        layer.codebook.embed.normal_()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    t.EncodecFeatureExtractor(feature_size=1, sampling_rate=8000).save_pretrained(folder)


PIPELINES: dict[str, Callable[[], Any]] = {
    "stable-diffusion": stable_diffusion,
    "ltx": ltx,
    "svd": video_diffusion,
    "shap-e": shap_e,
    "shap-e-image": shap_e_image,
}
MODELS: dict[str, Callable[[Path], None]] = {"vits": vits, "musicgen": musicgen}


def spoil(pipeline: Any, fault: str) -> None:
    """Makes the last layer of the image decoder return one constant value, or NaN."""
    last = pipeline.vae.decoder.conv_out
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(float("nan") if fault == "nan" else 0.25)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=[*PIPELINES, *MODELS], required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["flat", "nan"])
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    if options.kind in MODELS:
        MODELS[options.kind](options.folder)
        return
    pipeline = PIPELINES[options.kind]()
    if options.fault:
        spoil(pipeline, options.fault)
    pipeline.save_pretrained(options.folder, safe_serialization=True)


if __name__ == "__main__":
    main()
