"""The engine's own system call filter, narrowed to fewer kinds of sockets: none reaches the hypervisor."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopty.kit.temporary_top import temporary_top

_UNIX, _INET, _INET6, _NETLINK, _AUDIT = 1, 2, 10, 16, 9
# A filter cannot see which sockets a 32-bit program makes by `socketcall`; such a program can use `socket`, too.
_REPLACED = {"socket", "socketcall"}


def narrow_profile(profile: str) -> str | None:
    """The profile, in the engines' JSON, without sockets that loopty forbids; None for a profile of another kind.

    AF_VSOCK ignores network namespaces, and the profiles of some engines allow it.
    """
    fields: dict[str, Any] = json.loads(profile)
    # Such a profile names what it allows and refuses all the rest.
    if fields["defaultAction"] != "SCMP_ACT_ERRNO":
        return None
    rules = (
        {**rule, "names": [name for name in rule["names"] if name not in _REPLACED]} for rule in fields["syscalls"]
    )
    sockets = [_socket_rule(_condition(0, "EQ", family)) for family in (_UNIX, _INET, _INET6)]
    sockets.append(_socket_rule(_condition(0, "EQ", _NETLINK), _condition(2, "NE", _AUDIT)))
    return json.dumps({**fields, "syscalls": [*(rule for rule in rules if rule["names"]), *sockets]})


def write_profile(profile: str) -> tuple[str, Callable[[], None]]:
    """Write the narrowed profile to a file; returns its path, or "" without a file, and how to remove it."""
    try:
        text = narrow_profile(Path(profile).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError):
        text = None
    if text is None:
        return "", lambda: None
    descriptor, path = tempfile.mkstemp(prefix="loopty-seccomp-", suffix=".json", dir=temporary_top())
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    owner = os.getpid()

    def remove() -> None:
        # A forked child inherits this function, but the file is its parent's.
        if os.getpid() == owner:
            with contextlib.suppress(OSError):
                Path(path).unlink()

    return path, remove


def _socket_rule(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": list(conditions)}


def _condition(index: int, comparison: str, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": f"SCMP_CMP_{comparison}"}
