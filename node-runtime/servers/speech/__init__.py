"""Turns speech into text with CTranslate2; the entry point is `whisper_server.py`."""
