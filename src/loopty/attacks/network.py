"""Attacks that try to reach the network and the host's sockets."""

from __future__ import annotations

import contextlib
import socket

from loopty.attacks.attack import Attack
from loopty.attacks.threats import Threat
from loopty.domain.launch import Protection

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

ATTACKS = (
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
