"""Fine-tuning of encoders of texts: embeddings and classifiers."""

import sys
from pathlib import Path

# Its import prepares the libraries.
from .. import llm as llm

# A run reads a model's folder and its texts with the code of the server, so it trains what is served.
sys.path.append(str(Path(__file__).parents[3] / "servers"))
