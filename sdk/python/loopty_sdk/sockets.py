"""Sockets without the standard module, whose import takes a third of the start of Python."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import AF_UNIX, SCM_RIGHTS, SHUT_WR, SOCK_SEQPACKET, SOL_SOCKET, socketpair
    from socket import socket as Socket  # noqa: N812 - it is a class
else:
    try:
        from _socket import AF_UNIX, SCM_RIGHTS, SHUT_WR, SOCK_SEQPACKET, SOL_SOCKET, socketpair
        from _socket import socket as Socket  # noqa: N812
    except ImportError:  # another implementation of Python
        from socket import AF_UNIX, SCM_RIGHTS, SHUT_WR, SOCK_SEQPACKET, SOL_SOCKET, socketpair
        from socket import socket as Socket  # noqa: N812

__all__ = ["AF_UNIX", "SCM_RIGHTS", "SHUT_WR", "SOCK_SEQPACKET", "SOL_SOCKET", "Socket", "socketpair"]
