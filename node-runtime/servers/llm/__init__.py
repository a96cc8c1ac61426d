"""Serves a language model with PyTorch; the entry point is `llm_server.py`."""
