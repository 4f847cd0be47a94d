"""Tries a real GPU: on the host, in each sandbox without and with `devices`, and in a whole run.

It is no test that pytest collects: it needs a GPU. From the top of the repository, with nothing installed:

    PYTHONPATH=src:sdk/python python3 tests/devices/try_gpu.py

It prints one line for each case and exits with 1 if a case with devices failed. The whole run is tried where git
is installed and loopty's own dependencies can be imported. The program on the GPU needs only the driver's library
(libcuda.so.1); with PyTorch installed, a matrix product is tried, too.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from loopty.domain.launch import Bounds, Launch, LooptyError, Mount, Sandbox
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.sandboxes.toolchain import user_toolchain
from loopty.sandboxes.trial_view import find_devices

PROGRAM = """
import ctypes, json, sys, time
size = 1 << 30
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    sys.exit(f"no driver library: {error}")
def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        sys.exit(f"{name} gave error {code}")
call("cuInit", 0)
count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
name = ctypes.create_string_buffer(100)
call("cuDeviceGetName", name, 100, device)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
memory = ctypes.c_void_p()
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
def fill(times):
    start = time.perf_counter()
    for value in range(times):
        call("cuMemsetD32_v2", memory, ctypes.c_uint(value), ctypes.c_size_t(size // 4))
    call("cuCtxSynchronize")
    return time.perf_counter() - start
fill(2)
seconds = fill(20)
back = ctypes.c_uint()
call("cuMemcpyDtoH_v2", ctypes.byref(back), memory, ctypes.c_size_t(4))
assert back.value == 19, back.value
result = {"score": 20 * size / seconds / 1e9, "gpus": count.value, "name": name.value.decode()}
try:
    import torch
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    (a @ a).sum().item()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        b = a @ a
    torch.cuda.synchronize()
    result["torch_tflops"] = 50 * 2 * 4096**3 / (time.perf_counter() - start) / 1e12
except ImportError:
    pass
print(json.dumps(result))
"""
TASK = """
[benchmark]
command = "exec python3 gpu.py > $EVO_RESULT_PATH"
timeout_seconds = 120
devices = ["gpu"]
[access]
write = ["note.txt"]
[limits]
memory_mb = 8192
[sandbox]
kind = "{kind}"
"""
BOUNDS = Bounds(seconds=120, memory_mb=8192, processes=512, output_mb=4, disk_mb=1024)


def report(case: str, code: int, out: str, err: str) -> bool:
    lines = out.strip().splitlines() if code == 0 else err.strip().splitlines()
    print(f"{case:28} {'works' if code == 0 else f'exit {code}'}: {lines[-1][:300] if lines else ''}", flush=True)
    return code == 0


def run_on_host(program: Path) -> None:
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    report("host", done.returncode, done.stdout, done.stderr)


async def run_in(sandbox: Sandbox, folder: Path, devices: tuple[str, ...]) -> tuple[int, str, str]:
    tools = user_toolchain()
    launch = Launch(
        ("python3", "/t/gpu.py"),
        "/t",
        BOUNDS,
        folder / "out",
        folder / "err",
        {"PATH": tools.path},
        (*(Mount(prefix.resolve(), str(prefix)) for prefix in tools.prefixes), Mount(folder / "tree", "/t")),
        devices=devices,
    )
    try:
        end = await sandbox.run(launch, asyncio.Event())
    except LooptyError as error:
        return 125, "", str(error)
    stop = f"stopped by the bound on {end.stop}" if end.stop else ""
    return end.code or (1 if stop else 0), (folder / "out").read_text(), stop or (folder / "err").read_text()


def whole_run(kind: str, folder: Path) -> bool:
    """A baseline of a task with `devices = ["gpu"]`, through the command line."""
    top = folder / f"repository-{kind}"
    top.mkdir()
    for name, text in {"gpu.py": PROGRAM, "note.txt": "", "loopty.toml": TASK.format(kind=kind)}.items():
        (top / name).write_text(text)
    git = ("git", "-c", "user.name=user", "-c", "user.email=user@example.org")
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
        subprocess.run([*git, *args], cwd=top, check=True)
    loopty = (sys.executable, "-m", "loopty.cli.main")
    subprocess.run([*loopty, "trust", "--yes"], cwd=top, capture_output=True)
    done = subprocess.run([*loopty, "run", "1", "--json"], cwd=top, capture_output=True, text=True)
    if not done.stdout:
        return report(f"loopty run, {kind}", done.returncode, "", done.stderr)
    outcome = json.loads(done.stdout)["outcome"]
    out = json.dumps({"metrics": outcome.get("metrics"), "seconds": outcome["seconds"]})
    return report(f"loopty run, {kind}", done.returncode, out, outcome.get("reason", ""))


async def main() -> int:
    devices = find_devices(("gpu",))
    print("devices:", ", ".join(devices.paths))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        (folder / "tree").mkdir()
        (folder / "tree/gpu.py").write_text(PROGRAM)
        run_on_host(folder / "tree/gpu.py")
        good = []
        for make in (Namespaces, Bubblewrap, Landlock):
            sandbox: Sandbox = make()
            report(f"{sandbox.name}, no devices", *await run_in(sandbox, folder, ()))
            good.append(report(f"{sandbox.name}, devices", *await run_in(sandbox, folder, devices.paths)))
            if not good[-1] and isinstance(sandbox, Bubblewrap):
                sandbox._filter = None  # to learn whether the system call filter is the reason
                report("bubblewrap, no call filter", *await run_in(sandbox, folder, devices.paths))
        if shutil.which("git") and importlib.util.find_spec("click") and importlib.util.find_spec("apsw"):
            good += [whole_run(kind, folder) for kind in ("namespaces", "bubblewrap", "landlock")]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
