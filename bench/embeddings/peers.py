"""Times sentence-transformers on the texts in a file: reads a kind from each line of standard input, and
prints the wall-clock and CPU seconds for all texts of that kind.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer

BATCH = 32


def main() -> None:
    """Processes input lines until standard input ends."""
    torch.set_num_threads(1)
    texts_file, device, embedder, *rerankers = sys.argv[1:]
    with open(texts_file, encoding="utf8") as file:
        sets = json.load(file)
    embed = SentenceTransformer(embedder, device=device)
    rank = CrossEncoder(rerankers[0], device=device) if rerankers else None
    embed.encode(["warm"], show_progress_bar=False)
    if rank:
        rank.predict([("warm", "up")], show_progress_bar=False)
    print("ready", flush=True)
    for line in sys.stdin:
        kind = line.strip()
        began, cpu = time.perf_counter(), time.process_time()
        if rank and kind == "rerank":
            pairs = [(sets["query"], document) for document in sets["mixed"]]
            rank.predict(pairs, batch_size=BATCH, show_progress_bar=False)
        else:
            embed.encode(sets[kind], batch_size=BATCH, show_progress_bar=False)
        print(time.perf_counter() - began, time.process_time() - cpu, flush=True)


main()
