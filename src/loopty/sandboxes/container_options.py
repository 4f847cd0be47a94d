"""The engine's options for a trial: its rights, its bounds and its file system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Launch, Mount, SandboxError
from loopty.kit.records import Record
from loopty.sandboxes.container_engine import ContainerEngine, EngineKind, Image, is_engine_variable
from loopty.sandboxes.devices import is_nvidia_gpu

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
    """The engine's arguments that run `launch` in a container called `name`.

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
    """Where the trial sees file systems that are kept in memory."""
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
    """The mounts; after each read-only one, read-only mounts of the host's mount points below its source."""
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
    """The option for an empty file system in memory that the trial may write."""
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
