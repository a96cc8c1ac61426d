"""Fine-tuning of text encoders: embedding models and classifiers."""

import sys
from pathlib import Path

# This import prepares the libraries.
from .. import llm as llm

# A run reads a model's folder and text with the server's code, so that it trains what will be served.
sys.path.append(str(Path(__file__).parents[3] / "servers"))
