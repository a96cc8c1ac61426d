"""Turns speech into text with CTranslate2; `whisper_server.py` is the program."""
