"""Attempts, from inside a sandbox, that a sandbox must prevent. Run by the probe, on any Python from 3.8.

Each attempt does no harm when it succeeds. It prints `tried NAME` and, when it can itself see that it succeeded,
`did NAME`; the probe sees the others from outside.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SECRET = "loopty-secret"
_EXTRA_PROCESSES = 4
_FILE_BYTES = 1 << 20
_EXTRA_FILES = 2
_NOTICE_SECONDS = 3.0
_CLONE_NEWUSER = 0x10000000
_FEW_FILES = 17
_LONGEST_SOCKET_PATH = 107
_AF_VSOCK, _HYPERVISOR = 40, 2


def main() -> None:
    """Make every attempt; the sandbox may end the script at the last one."""
    facts = json.loads(Path("facts.json").read_text(encoding="utf-8"))
    for name, attempt in (
        ("read", lambda: _read(facts)),
        ("write", lambda: _write(facts)),
        ("mode", lambda: Path(facts["outside"]).chmod(0o640)),
        ("tcp", lambda: _connect(socket.AF_INET, ("127.0.0.1", facts["port"]))),
        ("datagram", lambda: _send_datagram(facts["port"])),
        ("path", lambda: _connect_to_file(facts["socket"])),
        ("abstract", lambda: _connect(socket.AF_UNIX, "\0" + facts["abstract"])),
        ("hypervisor", _reach_hypervisor),
        ("see", lambda: _see_decoy(facts["decoy"])),
        ("limit", lambda: _limit_decoy(facts["decoy"])),
        ("signal", lambda: os.kill(facts["decoy"], signal.SIGTERM)),
        ("daemon", _leave_daemon),
        ("forks", lambda: _fork_too_many(facts["processes"])),
    ):
        _try(name, attempt)
    _try_calls()
    _fill_disk(facts["disk_mb"])


def _try(name: str, attempt: Callable[[], Any]) -> None:
    print("tried", name, flush=True)
    try:
        attempt()
    except (OSError, ValueError):
        return
    print("did", name, flush=True)


def _routes(path: str, decoy: int) -> list[Path]:
    return [Path(root + path) for root in ("", "/proc/self/root", "/proc/1/root", f"/proc/{decoy}/root")]


def _read(facts: dict[str, Any]) -> None:
    for route in _routes(facts["secret"], facts["decoy"]):
        try:
            if route.read_text(encoding="utf-8") == _SECRET:
                return
        except OSError:
            continue
    raise OSError("hidden")


def _write(facts: dict[str, Any]) -> None:
    for route in _routes(facts["outside"], facts["decoy"]):
        try:
            with route.open("a", encoding="utf-8") as file:
                file.write("changed")
        except OSError:
            continue


def _connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        client.connect(address)


def _connect_to_file(path: str) -> None:
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        folder = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY)
        path = f"/proc/self/fd/{folder}/{Path(path).name}"
    _connect(socket.AF_UNIX, path)


def _send_datagram(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("127.0.0.1", port))


def _reach_hypervisor() -> None:
    with socket.socket(_AF_VSOCK, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        try:
            client.connect((_HYPERVISOR, 1))
        except OSError as error:
            # No listener is needed: any other answer, or none, means that something was sent.
            if error.errno == errno.ENODEV:
                raise


def _see_decoy(decoy: int) -> None:
    if not Path(f"/proc/{decoy}/cmdline").read_bytes().startswith(b"loopty-decoy\0"):
        raise OSError("another process")


def _limit_decoy(decoy: int) -> None:
    resource.prlimit(decoy, resource.RLIMIT_NOFILE, (_FEW_FILES, _FEW_FILES))


def _leave_daemon() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for descriptor in range(3):
                os.close(descriptor)
            time.sleep(60)
        os._exit(0)
    os.wait()


def _fork_too_many(processes: int) -> None:
    """Succeed when more processes than the bound live at once."""
    pids: list[int] = []
    try:
        while len(pids) + 1 < processes + _EXTRA_PROCESSES:
            if (pid := os.fork()) == 0:
                time.sleep(60)
                os._exit(0)
            pids.append(pid)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _try_calls() -> None:
    try:
        import ctypes
    except ImportError:
        return
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(256)

    def require_success(attempt: Callable[[], int]) -> None:
        # In a child process, because some of these calls change the caller.
        if (pid := os.fork()) == 0:
            os._exit(0 if attempt() != -1 else 1)
        if os.waitpid(pid, 0)[1]:
            raise OSError("refused")

    key = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    uffd = {"x86_64": 323, "aarch64": 282}.get(os.uname().machine)
    _try("ptrace", lambda: require_success(lambda: library.ptrace(0, 0, 0, 0)))
    _try("namespace", lambda: require_success(lambda: library.unshare(_CLONE_NEWUSER)))
    # A file system that does not exist: the kernel checks the right to mount first.
    _try("mount", lambda: require_success(lambda: _may_mount(library, ctypes.get_errno)))
    _try("io_uring", lambda: require_success(lambda: library.syscall(425, 1, buffer)))
    if key is not None:
        _try("keys", lambda: require_success(lambda: library.syscall(key, 0, -4, 1)))
    if uffd is not None:
        _try("userfaultfd", lambda: require_success(lambda: library.syscall(uffd, 0)))


def _may_mount(library: Any, last_error: Callable[[], int]) -> int:
    library.mount(b"none", b"/", b"loopty-no-such-file-system", 0, None)
    return 0 if last_error() == 19 else -1


def _fill_disk(disk_mb: int) -> None:
    """Write more than the bound. A sandbox refuses this at once, or ends the whole trial a little later."""
    directory = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(os.environ.get("TMPDIR", "/tmp"))
    paths = [directory / f"loopty-fill-{os.getpid()}-{number}" for number in range(disk_mb + _EXTRA_FILES)]
    print("tried disk", flush=True)
    try:
        for path in paths:
            path.write_bytes(os.urandom(_FILE_BYTES))
        time.sleep(_NOTICE_SECONDS)
        print("did disk", flush=True)
    except OSError:
        return
    finally:
        for path in paths:
            if path.exists():
                path.unlink()


if __name__ == "__main__":
    main()
