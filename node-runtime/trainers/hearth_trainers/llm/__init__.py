"""Fine-tuning of causal language models."""

import logging
import os
import warnings

# Training downloads nothing, because all files are in local folders. The libraries read these variables when
# they are imported.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Training compiles nothing, and importing the compiler takes a second of processor time.
os.environ["TORCHDYNAMO_DISABLE"] = "1"

# These warnings are of no use in a run's log.
warnings.simplefilter("ignore", FutureWarning)
for name in ("bitsandbytes", "torch.utils.flop_counter"):
    logging.getLogger(name).setLevel(logging.ERROR)
