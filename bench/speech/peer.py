"""Times bare faster-whisper on a file: for each line of standard input, transcribes the file and prints the wall-clock
and CPU seconds."""

from __future__ import annotations

import sys
import time

from faster_whisper import WhisperModel


def main() -> None:
    """Processes input lines until standard input ends."""
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
