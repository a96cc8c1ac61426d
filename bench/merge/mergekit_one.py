"""Runs the same merge with mergekit, for comparison: python mergekit_one.py METHOD DIR."""

import json
import resource
import sys
import time
from typing import Any

from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions

method, folder = sys.argv[1:]
base, first, second = (f"{folder}/m{seed}" for seed in range(3))
if method == "slerp":
    config: dict[str, Any] = {"merge_method": "slerp", "base_model": first, "parameters": {"t": 0.5}}
    config["models"] = [{"model": first}, {"model": second}]
else:
    config = {"merge_method": "dare_linear" if method == "dare" else method, "base_model": base}
    config["models"] = [{"model": one, "parameters": {"weight": 1.0, "density": 0.5}} for one in (first, second)]
config["dtype"] = "bfloat16"

started = time.monotonic()
options = MergeOptions(copy_tokenizer=False, lazy_unpickle=True, write_model_card=False)
run_merge(MergeConfiguration.model_validate(config), f"{folder}/out", options)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(
    json.dumps(
        {
            "wall_s": time.monotonic() - started,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_mb": usage.ru_maxrss // 1024,
        }
    )
)
