"""Converts a mono WAV on stdin to MP3: `python mp3_of.py <a.wav >a.mp3`."""

import io
import sys

import av

sound = av.open(io.BytesIO(sys.stdin.buffer.read()))
written = io.BytesIO()
with av.open(written, "w", format="mp3") as out:
    stream = out.add_stream("libmp3lame", rate=sound.streams.audio[0].rate, layout="mono")
    resampler = av.AudioResampler(stream.format, stream.layout, stream.rate, stream.codec_context.frame_size)
    for given in (*sound.decode(audio=0), None):
        for frame in resampler.resample(given):
            out.mux(stream.encode(frame))
    out.mux(stream.encode())
sys.stdout.buffer.write(written.getvalue())
