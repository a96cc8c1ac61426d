"""Fine-tuning of causal language models."""

import logging
import os
import warnings

# Nothing is fetched while training: what is needed lies in folders. Set before the libraries read it.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Nothing is compiled while training, and loading the compiler takes a second of processor time.
os.environ["TORCHDYNAMO_DISABLE"] = "1"

# What they say about themselves is of no use in the log of a run.
warnings.simplefilter("ignore", FutureWarning)
for name in ("bitsandbytes", "torch.utils.flop_counter"):
    logging.getLogger(name).setLevel(logging.ERROR)
