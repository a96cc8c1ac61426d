"""Serves specialists that generate text with PyTorch; the entry point is `torch_server.py`."""
