"""Reads times as people write them, and sorts rows by them."""
