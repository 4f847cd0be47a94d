"""Attacks on processes, sockets and the network of the host, also when the candidate is not asked."""

from __future__ import annotations

import contextlib
import socket
import time

from loopty.domain.launch import Freezer, Protection
from loopty.features.attacks.attack import BOUNDS, Attack, Threat
from loopty.kit.records import replace

_SCRIPTS = {
    "kill a process of the host": "os.kill(HOST['victim'], 9)\ntime.sleep(0.2)",
    "trace a process of the host": """
SEIZE = 0x4206
call(101, 117, SEIZE, HOST["victim"], 0, 0)
claim("traces process %d of the host" % HOST["victim"])
""",
    "read the memory of a process of the host": """
with open("/proc/%d/maps" % HOST["victim"]) as maps:
    spans = [line.split()[0].split("-") for line in maps if "[stack]" in line]
start, end = (int(bound, 16) for bound in spans[0])
memory = os.open("/proc/%d/mem" % HOST["victim"], os.O_RDONLY)
with open(OUT + "/leaked", "wb") as leaked:
    leaked.write(os.pread(memory, end - start, start))
""",
    "lower the priority of a process of the host": """
os.setpriority(os.PRIO_PROCESS, HOST["victim"], 19)
claim("changed the priority of process %d" % HOST["victim"])
""",
}

HOST_PROCESSES = tuple(Attack(name, Threat.OTHERS, Protection.OTHERS, script) for name, script in _SCRIPTS.items())


# An address reserved for documentation. Nothing is sent to it: connecting a datagram socket needs a route only.
_INTERNET_ADDRESS = "192.0.2.1"


def _no_route_out() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_INTERNET_ADDRESS, 9))
        except OSError:
            return "this machine has no route to the internet"
    return ""


def _no_vsock() -> str:
    with contextlib.suppress(OSError), socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM):
        return ""
    return "this kernel has no AF_VSOCK"


_SOCKETS = {
    "connect to a service on the loopback": "socket.create_connection(('127.0.0.1', HOST['tcp']), 5)",
    "send to a service on the loopback": (
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'here', ('127.0.0.1', HOST['udp']))"
    ),
    "connect to a socket in the file system": (
        "socket.socket(socket.AF_UNIX).connect(HOST['hidden'] + '/service.sock')"
    ),
    "connect to an abstract socket": "socket.socket(socket.AF_UNIX).connect('\\0' + HOST['abstract'])",
}

NETWORK = (
    *(
        Attack(name, Threat.NETWORK, Protection.NETWORK, f"import socket\n{script}")
        for name, script in _SOCKETS.items()
    ),
    Attack(
        "find a route to the internet",
        Threat.NETWORK,
        Protection.NETWORK,
        f"""
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("{_INTERNET_ADDRESS}", 9))
claim("has a route to the internet")
""",
        obstacle=_no_route_out,
    ),
    Attack(
        "open a socket to the hypervisor",
        Threat.NETWORK,
        Protection.NETWORK,
        "import socket\nsocket.socket(40, socket.SOCK_STREAM)\nclaim('has an AF_VSOCK socket')",
        obstacle=_no_vsock,
    ),
)


# Forked twice, in a session of its own, ignoring signals, without an environment variable to identify it. It
# reports when it runs, and exits by itself after a minute.
_DAEMON = """
import signal
code = "import os, sys, time; open(sys.argv[1], 'x'); time.sleep(60)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.chdir("/")
        {}
        os.execve(sys.executable, ["python3", "-I", "-S", "-c", code, OUT + "/there", HOST["mark"]], {{}})
    os._exit(0)
os.wait()
while not os.path.exists(OUT + "/there"):
    time.sleep(0.01)
{}
"""
_CLOSE_OUTPUT = "os.closerange(0, 256)"

SURVIVORS = (
    Attack(
        "leave a daemon",
        Threat.SURVIVORS,
        Protection.SURVIVORS,
        _DAEMON.format(_CLOSE_OUTPUT, ""),
    ),
    Attack(
        "leave a daemon that holds the output open",
        Threat.SURVIVORS,
        Protection.SURVIVORS,
        _DAEMON.format("pass", ""),
    ),
    Attack(
        "leave a daemon when time is up",
        Threat.SURVIVORS,
        Protection.SURVIVORS,
        _DAEMON.format(_CLOSE_OUTPUT, "time.sleep(60)"),
        bounds=replace(BOUNDS, seconds=2),
    ),
    Attack(
        "leave a daemon when memory is full",
        Threat.SURVIVORS,
        Protection.SURVIVORS,
        _DAEMON.format(_CLOSE_OUTPUT, "taken = b'x' * (80 << 20)\ntime.sleep(60)"),
        bounds=replace(BOUNDS, seconds=10, memory_mb=64),
    ),
)


_LOOK_SECONDS = 0.5
_TICKS_SECONDS = 0.05
"""What the kernel may still charge to a process that is stopped, where it counts in ticks."""

# Forked twice and in their own session, as a daemon is.
_SPINNERS = """
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(OUT + "/pids", "a") as file:
                file.write("%d\\n" % os.getpid())
            while True:
                pass
        os._exit(0)
    os.wait()
{}
ready()
while True:
    pass
"""


def use_while_stopped(freezer: Freezer) -> str:
    """Stop the processes, as between two calls, and say what CPU they use then; an empty text when it is none."""
    freezer.freeze()
    before = freezer.cpu_seconds()
    time.sleep(_LOOK_SECONDS)
    used = freezer.cpu_seconds() - before
    return f"used {used:.2f} s of CPU while it was stopped" if used > _TICKS_SECONDS else ""


BETWEEN_CALLS = (
    Attack(
        "spin while the benchmark measures something else",
        Threat.BETWEEN_CALLS,
        None,
        _SPINNERS.format(""),
        meanwhile=use_while_stopped,
    ),
    Attack(
        "spin in processes that wake each other",
        Threat.BETWEEN_CALLS,
        None,
        _SPINNERS.format(
            """
if os.fork() == 0:
    while True:
        for pid in open(OUT + "/pids").read().split():
            os.kill(int(pid), 18)
"""
        ),
        meanwhile=use_while_stopped,
    ),
)
