"""The trainers of Hearth: they read a job file and write JSON lines. The
protocol is in ../README.md."""
