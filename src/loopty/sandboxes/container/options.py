"""The engine's options for a trial: its rights, its bounds, its file system, and the engine's own system call
filter, narrowed.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from loopty.domain.launch import Launch, Mount, SandboxError
from loopty.kit.records import Record
from loopty.kit.temporary_folder import temporary_top
from loopty.sandboxes.container.engine import ContainerEngine, EngineKind, Image, is_engine_variable
from loopty.sandboxes.seccomp import CREATES, FORGETS, MODES, OPENS, SET_ID
from loopty.sandboxes.trial_view import is_nvidia_gpu

_HOME = "/tmp"
_SHARED_MEMORY = "/dev/shm"
_OOM_SCORE = "500"

# `--mount` takes comma-separated values, and only some versions understand quotes.
_SEPARATORS = ',"\n\r'


class ContainerSetup(Record):
    """What all trials of one sandbox share: the engine, the image, the user."""

    engine: ContainerEngine
    image: Image
    gpus: bool
    owner: tuple[int, int]
    limits: Mapping[str, str]
    profile: str = ""
    """The file with the system call filter; empty: the engine's own filter."""


def run_options(setup: ContainerSetup, launch: Launch, name: str, host_mounts: Sequence[Path] = ()) -> list[str]:
    """Return the engine's arguments that run `launch` in a container called `name`.

    `host_mounts` are the host's mount points.
    """
    return [
        # Its warnings would end up in the trial's standard error.
        "--log-level=error",
        "run",
        *(f"--{option}" for option in _single_options(setup, launch)),
        *(("--interactive",) if launch.channel is not None else ()),
        f"--name={name}",
        f"--workdir={launch.cwd}",
        *_bound_options(setup, launch),
        *_mount_options(setup, launch, host_mounts),
        *_variable_options(launch),
        # Emptied, so that the command is the launch's alone and nothing of the image's.
        "--entrypoint=",
        setup.image.id,
        *launch.argv,
    ]


def temporary_directories(setup: ContainerSetup, launch: Launch) -> tuple[str, ...]:
    """List where the trial sees file systems that are kept in memory."""
    return (_HOME, _SHARED_MEMORY, *setup.image.volumes, *launch.scratch)


def _single_options(setup: ContainerSetup, launch: Launch) -> Iterator[str]:
    uid, gid = setup.owner
    # An init, because the kernel shields the first process of a container from signals that it sends itself, and
    # because a process must reap what daemons leave. No log, because it would grow outside every bound.
    yield from ("init", "pull=never", "log-driver=none", "no-healthcheck")
    yield from ("read-only", "cap-drop=ALL", "security-opt=no-new-privileges", f"user={uid}:{gid}")
    if setup.profile:
        yield f"security-opt=seccomp={setup.profile}"
    # The alternative on machines with SELinux is to relabel the user's files.
    yield "security-opt=label=disable"
    yield from ("hostname=trial", "ipc=private", f"oom-score-adj={_OOM_SCORE}")
    # So that removal kills at once, and so that ending the engine's program sends no signal to the trial.
    yield from ("stop-signal=SIGKILL", "sig-proxy=false")
    if not launch.network:
        yield "network=none"
    if setup.engine.kind is EngineKind.PODMAN:
        # By default podman adds unbounded memory file systems, and the host's proxies with their passwords.
        yield from ("read-only-tmpfs=false", "http-proxy=false")
        if setup.engine.rootless:
            yield "userns=keep-id"
    if setup.gpus or any(map(is_nvidia_gpu, launch.devices)):
        yield "device=nvidia.com/gpu=all" if setup.engine.kind is EngineKind.PODMAN else "gpus=all"

    if not any(map(is_nvidia_gpu, launch.devices)):  # the engine brings the others of a GPU with its libraries
        yield from (f"device={path}" for path in launch.devices)


def _bound_options(setup: ContainerSetup, launch: Launch) -> Iterator[str]:
    bounds = launch.bounds
    size = bounds.disk_mb << 20
    # The engine's init counts as one.
    processes = bounds.processes + 1
    limits = {**setup.limits, "core": "0:0", "fsize": f"{size}:{size}"}
    if setup.engine.counts_processes:
        limits["nproc"] = f"{processes}:{processes}"
    yield from (f"--ulimit={name}={limit}" for name, limit in limits.items())
    yield f"--shm-size={size}"
    # An engine without these controllers warns on the trial's standard error, or refuses to start.
    if "memory" in setup.engine.controllers:
        yield from (f"--memory={bounds.memory_mb << 20}", f"--memory-swap={bounds.memory_mb << 20}")
    if "pids" in setup.engine.controllers:
        yield f"--pids-limit={processes}"


def _mount_options(setup: ContainerSetup, launch: Launch, host_mounts: Sequence[Path]) -> Iterator[str]:
    size = launch.bounds.disk_mb << 20
    # The engines mount parents before children, in whatever order the command line has them, and refuse two mounts
    # at one target. So we leave out what a later mount would cover. A volume of the image would be a writable
    # directory on the host's disk, so it gets a file system in memory.
    by_target: dict[str, Mount | None] = {_HOME: None, **dict.fromkeys(setup.image.volumes)}
    for mount in _with_submounts(launch.mounts, host_mounts):
        by_target = {**_without_covered(by_target, mount.target), mount.target: mount}
    for directory in launch.scratch:
        by_target = {**_without_covered(by_target, directory), directory: None}
    for target, bind in by_target.items():
        yield from _tmpfs_option(setup, target, size) if bind is None else _bind_option(bind)


def _without_covered(by_target: dict[str, Mount | None], target: str) -> dict[str, Mount | None]:
    above = PurePosixPath(target)
    return {path: mount for path, mount in by_target.items() if not PurePosixPath(path).is_relative_to(above)}


def _with_submounts(mounts: Iterable[Mount], host_mounts: Sequence[Path]) -> Iterator[Mount]:
    """Yield the mounts, and after each read-only one the host's mount points below its source, read-only."""
    # An engine includes those, but makes only the uppermost read-only.
    for mount in mounts:
        yield mount
        for point in () if mount.writable else host_mounts:
            if point != mount.source and point.is_relative_to(mount.source):
                yield Mount(point, str(PurePosixPath(mount.target) / point.relative_to(mount.source)))


def _bind_option(mount: Mount) -> tuple[str, ...]:
    paths = f"{mount.source}{mount.target}"
    if not any(separator in paths for separator in _SEPARATORS):
        access = "" if mount.writable else ",readonly"
        return (f"--mount=type=bind,source={mount.source},target={mount.target}{access}",)
    if ":" not in paths:
        return (f"--volume={mount.source}:{mount.target}:{'rw' if mount.writable else 'ro'}",)
    raise SandboxError(f"a container engine cannot mount {mount.source}: it has both a colon and a comma or quote")


def _tmpfs_option(setup: ContainerSetup, target: str, size: int) -> tuple[str, ...]:
    """Return the option for an empty file system in memory that the trial may write."""
    # Owned by the trial's user, because some runtimes replace the mode by that of the directory below.
    if any(separator in target for separator in f"{_SEPARATORS}:"):
        raise SandboxError(f"a container engine cannot mount a scratch directory at {target}: rename it")
    if setup.engine.kind is EngineKind.PODMAN:
        return (f"--mount=type=tmpfs,target={target},tmpfs-size={size},tmpfs-mode=1777,notmpcopyup,U=true",)
    uid, gid = setup.owner
    return (f"--tmpfs={target}:rw,exec,nosuid,nodev,size={size},mode=1777,uid={uid},gid={gid}",)


def _variable_options(launch: Launch) -> Iterator[str]:
    # By name only, so that the engine takes the value from its environment: other users can read command lines. A
    # variable that the engine itself would act on, a path or the like, needs its value on the command line.
    for name, value in {"HOME": _HOME, "TMPDIR": _HOME, **launch.env}.items():
        yield f"--env={name}={value}" if is_engine_variable(name) else f"--env={name}"


_UNIX, _INET, _INET6, _NETLINK, _AUDIT = 1, 2, 10, 16, 9
# A filter cannot see which sockets a 32-bit program makes by `socketcall`; such a program can use `socket`, too.
_REPLACED = {"socket", "socketcall", *MODES, *OPENS, *FORGETS, "openat2", "process_madvise"}
_ENOSYS = 38


def narrow_profile(profile: str) -> str | None:
    """Remove from the profile, in the engines' JSON, what loopty forbids; None for a profile of another kind.

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
    # As in loopty's own filter: the mode of openat2 is behind a pointer, and programs use openat without it.
    absent = {"names": ["openat2", "process_madvise"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS}
    by_default = fields.get("defaultErrnoRet") == _ENOSYS
    own = (*sockets, *_rules_without_set_id(), *_rules_for_advice(), *(() if by_default else (absent,)))
    return json.dumps({**fields, "syscalls": [*(rule for rule in rules if rule["names"]), *own]})


def _rules_without_set_id() -> Iterator[dict[str, Any]]:
    """Allow the calls that give files their modes, without the bits that make others the owner."""
    for name, (_, mode) in MODES.items():
        yield _allow(name, _without(mode, SET_ID))
    for name, (_, flags) in OPENS.items():
        yield _allow(name, _without(flags, CREATES))
        yield _allow(name, _without(flags + 1, SET_ID))


def _rules_for_advice() -> Iterator[dict[str, Any]]:
    """Let advice to forget what is in memory of files succeed without any effect."""
    for name, (_, argument, values) in FORGETS.items():
        yield _allow(name, _condition(argument, "LT", min(values)))
        yield _allow(name, _condition(argument, "GT", max(values)))
        for value in values:
            condition = _condition(argument, "EQ", value)
            yield {"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": 0, "args": [condition]}


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
    return _allow("socket", *conditions)


def _allow(name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": list(conditions)}


def _without(index: int, bits: int) -> dict[str, Any]:
    """Require that an argument has none of these bits."""
    return {"index": index, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}


def _condition(index: int, comparison: str, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": f"SCMP_CMP_{comparison}"}
