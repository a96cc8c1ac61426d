"""Trainers of Hearth: a job file in, JSON lines out. The contract is in ../README.md."""
