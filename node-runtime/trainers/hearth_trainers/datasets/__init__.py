"""Reads datasets of every accepted format into tables."""
