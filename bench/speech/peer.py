"""Times faster-whisper alone on a file: reads a line of standard input for each turn, and answers with the seconds that
it took, by the clock and of the processor."""

from __future__ import annotations

import sys
import time

from faster_whisper import WhisperModel


def main() -> None:
    """Answers until standard input ends."""
    folder, sound, temperature = sys.argv[1:]
    model = WhisperModel(folder, device="cpu", compute_type="default", cpu_threads=1, local_files_only=True)
    options = {"language": "en", "condition_on_previous_text": False, "temperature": float(temperature)}
    print("ready", flush=True)
    for _ in sys.stdin:
        began, cpu = time.perf_counter(), time.process_time()
        segments, _ = model.transcribe(sound, **options)
        list(segments)
        print(time.perf_counter() - began, time.process_time() - cpu, flush=True)


main()
