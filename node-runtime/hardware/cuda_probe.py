"""Runs cuInit in this process and in one that it starts, as servers with workers do, and prints both outcomes
as JSON. Uses only the driver's library, so it needs no environment.
"""

import ctypes
import json
import subprocess
import sys


def start_cuda():
    """Returns the code of cuInit with its name and the number of devices, or the reason why the library is missing."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"missing": str(error)}
    code = cuda.cuInit(0)
    name = ctypes.c_char_p()
    if hasattr(cuda, "cuGetErrorName"):
        cuda.cuGetErrorName(code, ctypes.byref(name))
    count = ctypes.c_int()
    if code == 0:
        code = cuda.cuDeviceGetCount(ctypes.byref(count))
    return {"code": code, "name": name.value.decode() if name.value else "", "devices": count.value}


own = start_cuda()
if sys.argv[1:] == ["worker"]:
    print(json.dumps(own))
else:
    worker = subprocess.run([sys.executable, "-I", "-S", __file__, "worker"], stdout=subprocess.PIPE, check=True)
    print(json.dumps({"own": own, "worker": json.loads(worker.stdout)}))
