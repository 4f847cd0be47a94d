"""The container engine of this machine: what it is, what it can do, what it says of images and containers."""

from __future__ import annotations

import enum
import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopty.domain.launch import SandboxError
from loopty.sandboxes.container_remedies import failure_message
from loopty.sandboxes.kernel_features import counts_processes_by_namespace

# Asking takes 50 ms; a storage that is busy with another image can hold an engine up for long.
_ANSWER_SECONDS = 120.0
_PREFERRED = ("podman", "docker")
# The engine, what it starts and Go's run time act on these: the host's values are theirs, and a trial's are kept
# from them. Nothing else of the host's environment reaches them.
_ENGINES_OWN = re.compile(
    r"PATH|HOME|USER|LOGNAME|TMPDIR|NOTIFY_SOCKET|GODEBUG|GOGC|GOMAXPROCS|GOMEMLIMIT|GOTRACEBACK"
    r"|(LD|LISTEN|XDG|DBUS|DOCKER|CONTAINERS?|_CONTAINERS|PODMAN|BUILDAH|STORAGE|REGISTRY)_.*"
)


class EngineKind(enum.StrEnum):
    """Whose command line the program speaks."""

    PODMAN = "podman"
    DOCKER = "docker"


@dataclass(frozen=True, slots=True)
class ContainerState:
    """What an engine knows of a container. `first` is its first process, 0 when it is not running."""

    started: bool
    code: int
    out_of_memory: bool
    first_pid: int


@dataclass(frozen=True, slots=True)
class Image:
    """An image by its content, and the directories that it wants writable."""

    id: str
    volumes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """A program that runs containers, as it described itself."""

    program: str
    kind: EngineKind
    rootless: bool
    controllers: frozenset[str]
    seccomp: bool
    counts_processes: bool
    """Whether a limit on a user's processes counts those of one container alone."""
    profile: str = ""
    """The file with its filter of system calls, where it tells."""

    def state(self, name: str) -> ContainerState | None:
        """What became of a container, or None when there is none of that name."""
        asked = _run_engine(self.program, "inspect", "--type", "container", "--format", "{{json .State}}", name)
        if asked.returncode != 0:
            return None
        fields = json.loads(asked.stdout)
        # Go's zero time: it was made, and then something failed.
        started = not fields["StartedAt"].startswith("0001-")
        return ContainerState(started, fields["ExitCode"], bool(fields["OOMKilled"]), fields["Pid"])

    def image(self, name: str) -> Image:
        """The image of that name, which must be here: nothing is fetched while trials run."""
        asked = _run_engine(self.program, "image", "inspect", "--format", "{{.Id}} {{json .Config.Volumes}}", name)
        if asked.returncode != 0:
            raise SandboxError(failure_message(self.program, asked.stderr, name))
        id_, _, volumes = asked.stdout.partition(" ")
        return Image(id_, tuple(json.loads(volumes) or ()))

    def container_names(self, prefix: str) -> tuple[str, ...]:
        """The containers whose names begin with `prefix`, also dead ones."""
        asked = _run_engine(self.program, "ps", "--all", "--filter", f"name=^{prefix}", "--format", "{{.Names}}")
        return tuple(asked.stdout.split())

    def remove_if_ended(self, name: str) -> bool:
        """Remove a container that has ended; false when it is alive, or there is none."""
        return _run_engine(self.program, "rm", "--volumes", name).returncode == 0

    def remove(self, *names: str) -> None:
        """Kill these containers and remove them; no harm when there are none."""
        asked = _run_engine(self.program, "rm", "--force", "--volumes", *names)
        if asked.returncode != 0 and any(self.state(name) is not None for name in names):
            raise SandboxError(
                f"cannot remove container {', '.join(names)}: {failure_message(self.program, asked.stderr)}"
            )


def engine_of(name: str) -> ContainerEngine:
    """The engine of that name, or for "auto" the first that is installed: podman, then docker."""
    program = _find_program(name)
    asked = _run_engine(program, "info", "--format", "{{json .}}")
    fields = json.loads(asked.stdout or "{}")
    # Docker's program describes itself also where its daemon is out of reach.
    if asked.returncode != 0 or fields.get("ServerErrors"):
        raise SandboxError(failure_message(program, "\n".join([*fields.get("ServerErrors", ()), asked.stderr])))
    # By the answer, because distributions install podman under docker's name.
    return _podman_engine(program, fields["host"]) if "host" in fields else _docker_engine(program, fields)


def engine_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """What an engine's program is started with: its own of the host's, and of `variables` those that are not."""
    own = {name: value for name, value in os.environ.items() if is_engine_variable(name)}
    return own | {name: value for name, value in (variables or {}).items() if not is_engine_variable(name)}


def is_engine_variable(name: str) -> bool:
    """Whether an engine's program would itself act on a variable of that name."""
    return _ENGINES_OWN.fullmatch(name) is not None


def limits_to_inherit() -> dict[str, str]:
    """Limits to ask for, because an engine's defaults may lie above what this process may hand on."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Podman takes no more than there are process numbers.
    most = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = most if hard == resource.RLIM_INFINITY else min(hard, most)
    return {"nofile": f"{files[0]}:{files[1]}", "nproc": f"{processes}:{processes}"}


def _podman_engine(program: str, host: Mapping[str, Any]) -> ContainerEngine:
    security = host["security"]
    controllers = frozenset(host.get("cgroupControllers") or ())
    rootless = security["rootless"]
    return ContainerEngine(
        program,
        EngineKind.PODMAN,
        rootless,
        controllers,
        security["seccompEnabled"],
        # Each of its containers has a user namespace of its own.
        counts_processes=rootless and counts_processes_by_namespace(),
        profile=security.get("seccompProfilePath", ""),
    )


def _docker_engine(program: str, fields: Mapping[str, Any]) -> ContainerEngine:
    options = {option.split(",")[0] for option in fields.get("SecurityOptions") or ()}
    named = {"memory": fields.get("MemoryLimit"), "pids": fields.get("PidsLimit")}
    controllers = frozenset(name for name, there in named.items() if there)
    return ContainerEngine(
        program, EngineKind.DOCKER, "name=rootless" in options, controllers, "name=seccomp" in options, False
    )


def _find_program(name: str) -> str:
    wanted = _PREFERRED if name == "auto" else (name,)
    for candidate in wanted:
        if (path := shutil.which(candidate)) is not None:
            return path
    raise SandboxError(f"{' or '.join(wanted)} is not installed: apt install podman")


def _run_engine(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            env=engine_environment(),
            cwd="/",
            # A Ctrl-C in the terminal is loopty's to act on.
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"cannot start {program}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"{program} {words[0]} did not answer within {_ANSWER_SECONDS:.0f} s") from error
