"""Fits maps between the vectors of two models and judges their quality; see ../README.md."""
