"""Fits maps between the vectors of two models and judges what they are worth: see ../README.md."""
