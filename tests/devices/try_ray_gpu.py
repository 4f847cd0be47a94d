"""Tries a GPU that Ray assigns: a whole run whose workers ask a cluster of this machine for one GPU each.

It is no test that pytest collects: it needs a GPU, Ray, git and openssl. From the top of the repository:

    PYTHONPATH=src:sdk/python python3 tests/devices/try_ray_gpu.py

Twice as many workers as GPUs are asked for, so half of them have to wait. It prints what each trial saw, and
exits with 1 unless the run ended well and every trial saw exactly one GPU.
"""

from __future__ import annotations

import csv
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import ctypes, json, os, time
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
print("saw", count.value, "GPU, CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
time.sleep(1)
json.dump({"score": count.value}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""
TASK = """
[benchmark]
command = ["python3", "gpu.py"]
timeout_seconds = 120
devices = ["gpu"]
[limits]
memory_mb = 8192
[noise]
repeat = "never"
[parameters.x]
type = "float"
low = 0.0
high = 1.0
[pools]
attempts = {attempts}
"""
ATTEMPTS = 4


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        env = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_TMPDIR": str(folder),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        ray = (sys.executable, "-m", "ray.scripts.scripts")
        head = ("--head", f"--port={port}", "--node-ip-address=127.0.0.1", "--include-dashboard=false")
        subprocess.run([*ray, "start", *head], env=env, check=True, stdout=subprocess.DEVNULL)
        try:
            return _run(folder / "repository", f"127.0.0.1:{port}", env)
        finally:
            subprocess.run([*ray, "stop", "--force"], env=env, stdout=subprocess.DEVNULL)


def _run(top: Path, address: str, env: dict[str, str]) -> int:
    top.mkdir()
    for name, text in {"gpu.py": PROGRAM, "loopty.toml": TASK.format(attempts=ATTEMPTS)}.items():
        (top / name).write_text(text)
    git = ("git", "-c", "user.name=user", "-c", "user.email=user@example.org")
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
        subprocess.run([*git, *args], cwd=top, check=True)
    loopty = (sys.executable, "-m", "loopty")
    subprocess.run([*loopty, "trust", "--yes"], cwd=top, env=env, capture_output=True)
    entry = f"ray:{address}?workers={2 * _gpus()}&gpus=1&cpus=1"
    command = [*loopty, "optimize", "--listen", "127.0.0.1:0", "--on", entry]
    done = subprocess.run(command, cwd=top, env=env, capture_output=True, text=True, timeout=400)
    print(done.stdout[-3000:], done.stderr[-3000:])
    table = top / "trials.csv"
    subprocess.run([*loopty, "export", "--trials", str(table)], cwd=top, env=env, check=True, capture_output=True)
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    counts = [row["metric.score"] for row in rows]
    print("GPUs that each trial saw:", *counts)
    return 0 if done.returncode == 0 and len(counts) == 1 + ATTEMPTS and {*map(float, counts)} == {1.0} else 1


def _gpus() -> int:
    return len(subprocess.check_output(["nvidia-smi", "-L"], text=True).splitlines())


if __name__ == "__main__":
    sys.exit(main())
