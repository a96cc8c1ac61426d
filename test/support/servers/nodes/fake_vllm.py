"""Starts like vLLM: `python -m vllm.entrypoints.cli.main serve DIR --uds PATH`. Prints no ready line, and
becomes healthy after a while. With vllm-cli.json as the first argument, rejects arguments that the pinned
version doesn't know. Its LoRA and sleep routes respond like those of vLLM 0.33.0.

`weights.json` in the model's folder makes it fail: `fails` (every inference), `sleep_fails`, `wake_fails` (as
often as the number says), `wake_s` (how long waking takes)."""

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Query = dict[str, list[str]]

SICK_S = 1.0
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
SLEEP_TAGS = frozenset({"weights", "kv_cache"})
SLEEP_ROUTES = ("/sleep", "/wake_up", "/is_sleeping")
LORA_ROUTES = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter")


def check_arguments(arguments: list[str], cli: dict[str, list[str]]) -> str | None:
    """Returns the error that vLLM's parser would print; None if it accepts the arguments."""
    names = [part.split("=")[0].replace("--no-", "--") for part in arguments if part.startswith("--")]
    unknown = [name for name in names if name not in cli["flags"]]
    if unknown:
        return f"unrecognized arguments: {' '.join(unknown)}"
    values = dict(itertools.pairwise(arguments))
    for flag, known in (("--tool-call-parser", "tool_parsers"), ("--reasoning-parser", "reasoning_parsers")):
        if flag in values and values[flag] not in cli[known]:
            return f"argument {flag}: invalid choice: {values[flag]}"
    if int(values.get("--max-lora-rank", "16")) not in RANKS:
        return f"argument --max-lora-rank: invalid choice: {values['--max-lora-rank']}"
    most, on_cpu = int(values.get("--max-loras", "1")), values.get("--max-cpu-loras")
    if on_cpu is not None and int(on_cpu) < most:
        return f"max_cpu_loras ({on_cpu}) must be >= max_loras ({most})."
    share = float(values.get("--gpu-memory-utilization", "0.92"))
    return None if 0 < share <= 1 else "gpu_memory_utilization must be greater than 0 and at most 1"


def values_of(flag: str, arguments: list[str]) -> list[str]:
    """Returns the values after a flag."""
    after = arguments[arguments.index(flag) + 1 :] if flag in arguments else []
    return list(itertools.takewhile(lambda part: not part.startswith("--"), after))


def is_set(variable: str) -> bool:
    return os.environ.get(variable, "0") in ("1", "true")


def note_start(cache: str) -> int:
    """Returns how often an engine with this cache has started, which shows whether the cache is kept."""
    if not cache:
        return 1
    file = Path(cache) / "starts"
    file.parent.mkdir(parents=True, exist_ok=True)
    count = int(file.read_text()) + 1 if file.exists() else 1
    file.write_text(str(count))
    return count


class RequestError(Exception):
    """A request that gets an error response."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


def bad(message: str) -> RequestError:
    return RequestError(400, "InvalidUserInput", message)


class Adapters:
    """The LoRA adapters of the engine."""

    def __init__(self, arguments: list[str]) -> None:
        self.base = (values_of("--served-model-name", arguments) or [arguments[1]])[0]
        self.is_enabled = "--enable-lora" in arguments
        self.max_rank = int((values_of("--max-lora-rank", arguments) or ["16"])[0])
        self.paths: dict[str, str] = {}
        for item in values_of("--lora-modules", arguments):
            parsed = (
                json.loads(item)
                if item.startswith("{")
                else dict(zip(("name", "path"), item.split("=", 1), strict=False))
            )
            self.load({"lora_name": parsed["name"], "lora_path": parsed["path"]})

    def load(self, asked: dict[str, Any]) -> str:
        name, path = self.required(asked, "lora_name"), self.required(asked, "lora_path")
        if not name or not path:
            raise bad("Both 'lora_name' and 'lora_path' must be provided.")
        if name == self.base:
            raise bad(f"The lora adapter '{name}' conflicts with a served base model.")
        if name in self.paths and not asked.get("load_inplace"):
            raise bad(
                f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in place,"
                " set 'load_inplace' to True."
            )
        try:
            self.read(path)
        except FileNotFoundError:
            message = f"Loading lora {name} failed: No adapter found for {path}"
            raise RequestError(404, "NotFoundError", message) from None
        except (ValueError, RuntimeError, TypeError) as err:
            message = f"Call to add_lora method failed: {err}"
            raise RequestError(500, "InternalServerError", message) from None
        self.paths[name] = path
        return f"Success: LoRA adapter '{name}' added successfully."

    def unload(self, asked: dict[str, Any]) -> str:
        name = self.required(asked, "lora_name")
        if not name:
            raise bad("'lora_name' needs to be provided to unload a LoRA adapter.")
        if name not in self.paths:
            raise RequestError(404, "NotFoundError", f"The lora adapter '{name}' cannot be found.")
        del self.paths[name]
        return f"Success: LoRA adapter '{name}' removed successfully."

    @staticmethod
    def required(asked: dict[str, Any], field: str) -> str:
        if not isinstance(asked.get(field), str):
            raise RequestError(400, "BadRequestError", f"Field required: {field}")
        return asked[field]

    def read(self, path: str) -> None:
        """Raises the error that the engine would raise for these files."""
        if not self.is_enabled:
            raise RuntimeError("LoRA is not enabled. Use --enable-lora to enable LoRA.")
        config: dict[str, Any] = json.loads((Path(path) / "adapter_config.json").read_text())
        ranks: dict[str, int] = config.get("rank_pattern") or {}
        rank = max([config["r"], *ranks.values()])
        problems: list[str] = []
        saved: list[str] = config.get("modules_to_save") or []
        others = [name for name in saved if name not in ("classifier", "score")]
        if others:
            problems.append(
                "vLLM only supports modules_to_save being either None or"
                f' ["classifier", "score"] for classification models. Unsupported modules_to_save: {others}'
            )
        if config.get("use_dora"):
            problems.append("vLLM does not yet support DoRA.")
        if rank > self.max_rank:
            problems.append(f"LoRA rank {rank} is greater than max_lora_rank {self.max_rank}.")
        if config.get("bias", "none") != "none":
            problems.append("Adapter bias is not supported.")
        if problems:
            raise ValueError(" ".join(problems))
        if not any((Path(path) / f"adapter_model.{kind}").exists() for kind in ("safetensors", "bin", "pt")):
            raise ValueError(f"{path} doesn't contain tensors")

    def check(self, model: str | None) -> None:
        """Raises unless a request for this model can be served."""
        if model and model != self.base and model not in self.paths:
            message = f"The model `{model}` does not exist. Valid aliases: {self.base}."
            raise RequestError(404, "NotFoundError", message, "model")

    def cards(self) -> list[dict[str, Any]]:
        """Returns the base and the adapters as `/v1/models` lists them."""
        base = {"id": self.base, "root": sys.argv[2], "parent": None}
        adapters = [{"id": name, "root": path, "parent": self.base} for name, path in self.paths.items()]
        return [{"object": "model", "owned_by": "vllm", **card} for card in (base, *adapters)]


class Sleep:
    """The sleep mode of the engine. While it sleeps, it accepts requests but does not process them."""

    def __init__(self, arguments: list[str], weights: dict[str, Any], cache: str) -> None:
        # Without the flag, the routes pause the engine but free no memory.
        self.frees_memory = "--enable-sleep-mode" in arguments
        self.weights = weights
        self.marker = Path(cache) / "asleep" if cache else None
        self.awake = threading.Condition()
        self.is_paused = False
        self.sleeping_tags: set[str] = set()
        self.are_weights_lost = False
        self.wakes = 0
        self.failures = 0
        self.note()

    def sleep(self, query: Query) -> dict[str, Any]:
        level, mode = query.get("level", ["1"])[0], query.get("mode", ["abort"])[0]
        if level not in ("0", "1", "2") or mode not in ("abort", "wait", "keep"):
            raise RequestError(400, "BadRequestError", f"Invalid level or mode: {level}, {mode}")
        if self.weights.get("sleep_fails"):
            raise RequestError(500, "InternalServerError", "Call to sleep method failed: out of host memory")
        with self.awake:
            self.is_paused = True
            if level != "0":
                self.sleeping_tags |= SLEEP_TAGS
                self.are_weights_lost = level == "2"
            self.note()
        return {"status": "sleeping", "level": int(level)}

    def wake_up(self, query: Query) -> dict[str, Any]:
        tags = query.get("tags")
        time.sleep(self.weights.get("wake_s", 0))
        if self.failures < self.weights.get("wake_fails", 0):
            self.failures += 1
            raise RequestError(500, "InternalServerError", "Call to wake_up method failed: CUDA out of memory")
        with self.awake:
            self.wakes += 1
            wanted = SLEEP_TAGS if tags is None else set(tags) - {"scheduling"}
            # Unknown tags, or tags that are awake already, wake nothing.
            if wanted <= self.sleeping_tags:
                self.sleeping_tags -= wanted
            self.is_paused = bool(self.sleeping_tags)
            self.note()
            self.awake.notify_all()
        return {"status": "sleeping" if self.is_paused else "awake", "tags": tags}

    def wait(self) -> None:
        with self.awake:
            self.awake.wait_for(lambda: not self.is_paused)

    def note(self) -> None:
        """Leaves a marker while the engine's GPU memory is free, for tests that fake nvidia-smi."""
        if self.marker is None:
            return
        if self.frees_memory and self.sleeping_tags >= SLEEP_TAGS:
            self.marker.touch()
        else:
            self.marker.unlink(missing_ok=True)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return ""

    def do_GET(self) -> None:
        self.respond(self.read_state)

    def do_POST(self) -> None:
        self.respond(self.run)

    def respond(self, handle: Callable[[str, Query], tuple[int, Any]]) -> None:
        url = urlsplit(self.path)
        try:
            self.check_route(url.path)
            self.answer(*handle(url.path, parse_qs(url.query)))
        except RequestError as err:
            self.answer(err.status, err.body)

    def check_route(self, path: str) -> None:
        is_off = (path in SLEEP_ROUTES and not is_set("VLLM_SERVER_DEV_MODE")) or (
            path in LORA_ROUTES and not is_set("VLLM_ALLOW_RUNTIME_LORA_UPDATING")
        )
        if is_off:
            raise RequestError(404, "NotFoundError", "Not Found")

    def read_state(self, path: str, _query: Query) -> tuple[int, Any]:
        if path == "/is_sleeping":
            return 200, {"is_sleeping": napping.is_paused}
        if path == "/v1/models":
            return 200, {"object": "list", "data": adapters.cards()}
        well = time.monotonic() - started > SICK_S
        return 200 if path == "/health" and well else 503, {}

    def run(self, path: str, query: Query) -> tuple[int, Any]:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if path == "/sleep":
            return 200, napping.sleep(query)
        if path == "/wake_up":
            return 200, napping.wake_up(query)
        asked = json.loads(data)
        if path == LORA_ROUTES[0]:
            return 200, adapters.load(asked)
        if path == LORA_ROUTES[1]:
            return 200, adapters.unload(asked)
        return self.infer(asked)

    def infer(self, asked: dict[str, Any]) -> tuple[int, Any]:
        model = asked.get("model") or adapters.base
        adapters.check(model)
        napping.wait()
        if weights.get("fails"):
            return 500, {"error": {"message": "CUDA out of memory"}}
        text = "from vLLM" if model == adapters.base else f"from vLLM with {model}"
        message = {"role": "assistant", "content": "!!!!" if napping.are_weights_lost else text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        facts = {"argv": sys.orig_argv[1:], "path": self.path, "asked": asked, "env": dict(os.environ)}
        facts |= {"starts": starts, "wakes": napping.wakes, "adapters": adapters.paths}
        return 200, {"id": "x", "model": model, "choices": choices, "usage": usage, **facts}

    def answer(self, status: int, value: Any) -> None:
        is_text = isinstance(value, str)
        data = (value if is_text else json.dumps(value, separators=(",", ":"))).encode()
        self.send_response(status)
        self.send_header("content-type", "text/plain" if is_text else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


if sys.argv[1].endswith(".json"):
    problem = check_arguments(sys.argv[2:], json.loads(Path(sys.argv.pop(1)).read_text()))
    if problem:
        print(f"vllm serve: error: {problem}", file=sys.stderr)
        sys.exit(2)
weights_file = Path(sys.argv[2]) / "weights.json"
weights: dict[str, Any] = json.loads(weights_file.read_text()) if weights_file.exists() else {}
starts = note_start(os.environ.get("VLLM_CACHE_ROOT", ""))
if weights.get("no_lora") and "--enable-lora" in sys.argv:
    print("ValueError: this model does not support LoRA yet", file=sys.stderr)
    sys.exit(1)
adapters = Adapters(sys.argv[1:])
napping = Sleep(sys.argv[1:], weights, os.environ.get("VLLM_CACHE_ROOT", ""))
print("INFO loading the weights", flush=True)
started = time.monotonic()
Server(sys.argv[sys.argv.index("--uds") + 1], Handler).serve_forever()
