"""Why bubblewrap does not start on this machine, and what to do about it."""

from __future__ import annotations

from pathlib import Path

_SWITCHES = (
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "user namespaces are off: sysctl kernel.unprivileged_userns_clone=1",
    ),
    ("user/max_user_namespaces", "0", "user namespaces are off: sysctl user.max_user_namespaces=10000"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts user namespaces (Ubuntu 24.04): allow `userns` to bwrap in a profile, "
        "or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)

_ADVICE = (
    (
        "unknown option",
        "this bubblewrap is too old: install 0.8 or later with its distribution's security fixes",
    ),
)

_NAMESPACE_WORDS = ("namespace", "uid map", "gid map", "setting up", "loopback", "operation not permitted")


def remedy(message: str) -> str:
    """The remedy for bubblewrap's message, or an empty text when none is known."""
    words = message.lower()
    for part, advice in _ADVICE:
        if part in words:
            return advice
    if not any(word in words for word in _NAMESPACE_WORDS):
        return ""
    for switch, off, advice in _SWITCHES:
        if _setting(switch) == off:
            return advice
    return "a container may forbid user namespaces: start it with --security-opt seccomp=unconfined"


def _setting(name: str) -> str | None:
    try:
        return (Path("/proc/sys") / name).read_text(encoding="ascii").strip()
    except OSError:
        return None
