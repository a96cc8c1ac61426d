"""A minimal model server: echoes, streams, waits, and counts disconnected callers."""

import json
import select
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

model_dir, ballast_mb = sys.argv[1], int(sys.argv[2])
weights = json.loads(Path(model_dir, "weights.json").read_text())
time.sleep(weights.get("load_s", 0))
for number in range(weights.get("steps", 0)):
    print(f"step {number}", flush=True)
    time.sleep(0.4)
if weights.get("unusable"):
    print("its weights cannot be used: they are of clay", file=sys.stderr)
    sys.exit(65)
if weights.get("line_mb"):
    # One long line that ends when the process exits.
    for _ in range(weights["line_mb"]):
        sys.stderr.write("x" * (1 << 20))
    sys.exit(1)
if weights.get("broken"):
    sys.exit("these weights are broken")
ballast = bytearray(ballast_mb << 20)
counts = {"in_flight": 0, "left": 0, "done": 0}
lock = threading.Lock()
is_broken = threading.Event()


def count(name: str, by: int) -> None:
    with lock:
        counts[name] += by


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(200, {"status": "ok"} if self.path == "/health" else counts)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        count("in_flight", 1)
        try:
            if self.path == "/stream":
                self.stream(body)
            elif "die" in body:
                sys.stderr.write("told to die\n")
                sys.stderr.flush()
                import os

                os._exit(3)
            elif "fail" in body or "break" in body or is_broken.is_set():
                if "break" in body:
                    is_broken.set()
                self.answer(500, {"error": {"message": "The model failed on this request."}})
            elif "lose_gpu" in body:
                self.lose_gpu()
            elif "wait_s" in body:
                self.wait(body["wait_s"])
            elif "refuse" in body:
                self.answer(422, {"error": {"message": body["refuse"]}})
            else:
                self.answer(200, {"predictions": body.get("instances"), "weights": weights["name"]})
            count("done", 1)
        except OSError:
            count("left", 1)
        finally:
            count("in_flight", -1)

    def lose_gpu(self) -> None:
        """Exits as PyTorch servers do: after the response to the request that lost the GPU."""
        import os

        sys.stderr.write("it was placed on a GPU that it cannot use: AcceleratorError: CUDA error: unknown error\n")
        sys.stderr.flush()
        self.answer(500, {"error": {"message": "The model failed on this request."}})
        os._exit(69)

    def wait(self, seconds: float) -> None:
        """Responds after a while, unless the caller disconnects first."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if readable:
            self.close_connection = True
            raise OSError("the caller has disconnected")
        self.answer(200, {"waited_s": seconds})

    def stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", body.get("content_type", "text/event-stream"))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number in range(body["chunks"]):
            data = f"{number}:".encode().ljust(body["bytes"], b"x")
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(body.get("gap_s", 0))
        self.wfile.write(b"0\r\n\r\n")

    def answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


server = Server(("127.0.0.1", 0), Handler)
print(json.dumps({"event": "ready", "port": server.server_port}), flush=True)
server.serve_forever()
