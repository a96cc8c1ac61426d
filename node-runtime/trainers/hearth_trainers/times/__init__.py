"""Reads times as people write them, and puts rows in their order."""
