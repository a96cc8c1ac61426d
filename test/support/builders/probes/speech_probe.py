"""Transcribes audio greedily: `python speech_probe.py transformers|ctranslate2 FOLDER` reads `{"samples", "prompts"}`
from stdin and prints the tokens after each prompt, and the mean of their log probabilities."""

import json
import sys

import numpy as np

TOKENS = 8


def with_transformers(folder, samples, prompts):
    import torch
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperTokenizerFast

    tokenizer = WhisperTokenizerFast.from_pretrained(folder)
    model = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    extract = WhisperFeatureExtractor.from_pretrained(folder)
    features = extract(samples, sampling_rate=16_000, return_tensors="pt").input_features
    heard = []
    with torch.inference_mode():
        encoded = model.get_encoder()(features)
        for prompt in prompts:
            ids, scores = tokenizer.convert_tokens_to_ids(prompt), []
            for _ in range(TOKENS):
                logits = model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
                likely = torch.log_softmax(logits, -1)
                scores.append(float(likely.max()))
                ids = [*ids, int(likely.argmax())]
            heard.append([tokenizer.convert_ids_to_tokens(ids[len(prompt) :]), sum(scores) / TOKENS])
    return heard


def with_ctranslate2(folder, samples, prompts):
    import ctranslate2
    from faster_whisper import WhisperModel

    model = WhisperModel(folder, device="cpu", cpu_threads=1, local_files_only=True)
    features = model.feature_extractor(samples, padding=True)[:, :3000]
    storage = ctranslate2.StorageView.from_array(np.expand_dims(np.ascontiguousarray(features, dtype=np.float32), 0))
    heard = []
    for prompt in prompts:
        ids = [model.hf_tokenizer.token_to_id(token) for token in prompt]
        options = {"beam_size": 1, "suppress_blank": False, "suppress_tokens": [], "return_scores": True}
        # The library generates half as many tokens as this.
        [found] = model.model.generate(storage, [ids], **options, max_length=2 * TOKENS)
        heard.append([[model.hf_tokenizer.id_to_token(one) for one in found.sequences_ids[0]], found.scores[0]])
    return heard


engine, folder = sys.argv[1:]
asked = json.load(sys.stdin)
run = with_transformers if engine == "transformers" else with_ctranslate2
print(json.dumps(run(folder, np.array(asked["samples"], dtype=np.float32), asked["prompts"])))
