"""What a trial gets in a container: the engine's options for its rights, its bounds and its file system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Launch, Mount, SandboxError
from loopty.sandboxes.container_engine import ContainerEngine, EngineKind, Image, is_engine_variable

_HOME = "/tmp"
_SHARED_MEMORY = "/dev/shm"
_OOM_SCORE = "500"

# `--mount` takes a line of comma-separated values, and versions differ in whether they know quotes.
_SEPARATORS = ',"\n\r'


@dataclass(frozen=True, slots=True)
class ContainerSetup:
    """What is the same for all trials of one run: by which engine, in which image, as whom."""

    engine: ContainerEngine
    image: Image
    gpus: bool
    owner: tuple[int, int]
    limits: Mapping[str, str]
    profile: str = ""
    """The file with the filter of system calls; empty: the engine's own."""


def run_options(terms: ContainerSetup, launch: Launch, name: str, host_mounts: Sequence[Path] = ()) -> list[str]:
    """The words after the engine's own name that run `launch` in a container called `name`.

    `mounted` are the host's mount points.
    """
    return [
        # Its warnings would stand in the trial's standard error.
        "--log-level=error",
        "run",
        *(f"--{option}" for option in _single_options(terms, launch)),
        *(("--interactive",) if launch.channel is not None else ()),
        f"--name={name}",
        f"--workdir={launch.cwd}",
        *_bound_options(terms, launch),
        *_mount_options(terms, launch, host_mounts),
        *_variable_options(launch),
        # Emptied, so that the command is what the launch says and nothing of the image's.
        "--entrypoint=",
        terms.image.id,
        *launch.argv,
    ]


def temporary_directories(terms: ContainerSetup, launch: Launch) -> tuple[str, ...]:
    """Where the trial sees file systems that live in memory."""
    return (_HOME, _SHARED_MEMORY, *terms.image.volumes, *launch.scratch)


def _single_options(terms: ContainerSetup, launch: Launch) -> Iterator[str]:
    uid, gid = terms.owner
    # An init, because the kernel shields the first process of a container from signals that it sends itself,
    # and because somebody must reap what daemons leave. No log: it would grow outside of every bound.
    yield from ("init", "pull=never", "log-driver=none", "no-healthcheck")
    yield from ("read-only", "cap-drop=ALL", "security-opt=no-new-privileges", f"user={uid}:{gid}")
    if terms.profile:
        yield f"security-opt=seccomp={terms.profile}"
    # The other way on machines with SELinux is to relabel the user's files.
    yield "security-opt=label=disable"
    yield from ("hostname=trial", "ipc=private", f"oom-score-adj={_OOM_SCORE}")
    # So that removing kills at once, and so that ending the engine's program asks nothing of the trial.
    yield from ("stop-signal=SIGKILL", "sig-proxy=false")
    if not launch.network:
        yield "network=none"
    if terms.engine.kind is EngineKind.PODMAN:
        # By default it adds memory file systems without a bound, and the host's proxies with their passwords.
        yield from ("read-only-tmpfs=false", "http-proxy=false")
        if terms.engine.rootless:
            yield "userns=keep-id"
    if terms.gpus:
        yield "device=nvidia.com/gpu=all" if terms.engine.kind is EngineKind.PODMAN else "gpus=all"


def _bound_options(terms: ContainerSetup, launch: Launch) -> Iterator[str]:
    bounds = launch.bounds
    size = bounds.disk_mb << 20
    # The engine's init is one of them.
    processes = bounds.processes + 1
    limits = {**terms.limits, "core": "0:0", "fsize": f"{size}:{size}"}
    if terms.engine.counts_processes:
        limits["nproc"] = f"{processes}:{processes}"
    yield from (f"--ulimit={name}={limit}" for name, limit in limits.items())
    yield f"--shm-size={size}"
    # An engine without these controllers warns on the trial's standard error, or refuses.
    if "memory" in terms.engine.controllers:
        yield from (f"--memory={bounds.memory_mb << 20}", f"--memory-swap={bounds.memory_mb << 20}")
    if "pids" in terms.engine.controllers:
        yield f"--pids-limit={processes}"


def _mount_options(terms: ContainerSetup, launch: Launch, mounted: Sequence[Path]) -> Iterator[str]:
    size = launch.bounds.disk_mb << 20
    # The engines mount parents before children, whatever the order on their command line, and refuse two
    # mounts at one place. So what a later mount would cover is left out. A volume of the image would be a
    # writable directory on the host's disk.
    places: dict[str, Mount | None] = {_HOME: None, **dict.fromkeys(terms.image.volumes)}
    for mount in _with_submounts(launch.mounts, mounted):
        places = {**_without_covered(places, mount.target), mount.target: mount}
    for directory in launch.scratch:
        places = {**_without_covered(places, directory), directory: None}
    for target, shown in places.items():
        yield from _tmpfs_option(terms, target, size) if shown is None else _bind_option(shown)


def _without_covered(places: dict[str, Mount | None], target: str) -> dict[str, Mount | None]:
    above = PurePosixPath(target)
    return {place: shown for place, shown in places.items() if not PurePosixPath(place).is_relative_to(above)}


def _with_submounts(mounts: Iterable[Mount], mounted: Sequence[Path]) -> Iterator[Mount]:
    """The mounts, and after each that is read-only what the host has mounted below its source, read-only too."""
    # An engine takes those along, but makes only the uppermost read-only.
    for mount in mounts:
        yield mount
        for point in () if mount.writable else mounted:
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


def _tmpfs_option(terms: ContainerSetup, target: str, size: int) -> tuple[str, ...]:
    """An empty file system in memory that the trial may write."""
    # Owned by the trial, because some runtimes replace the mode by that of the directory below.
    if any(separator in target for separator in f"{_SEPARATORS}:"):
        raise SandboxError(f"a container engine cannot mount a scratch directory at {target}: rename it")
    if terms.engine.kind is EngineKind.PODMAN:
        return (f"--mount=type=tmpfs,target={target},tmpfs-size={size},tmpfs-mode=1777,notmpcopyup,U=true",)
    uid, gid = terms.owner
    return (f"--tmpfs={target}:rw,exec,nosuid,nodev,size={size},mode=1777,uid={uid},gid={gid}",)


def _variable_options(launch: Launch) -> Iterator[str]:
    # By name, so that the engine takes the value from its own environment: other users can read command lines.
    # Where it would itself act on the variable, which is a path or the like, the value has to be said.
    for name, value in {"HOME": _HOME, **launch.env}.items():
        yield f"--env={name}={value}" if is_engine_variable(name) else f"--env={name}"
