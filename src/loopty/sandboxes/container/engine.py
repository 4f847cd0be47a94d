"""The container engine of this machine: what it can do, the state of its images and containers, why it did not run
a trial.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any

from loopty.domain.launch import SandboxError
from loopty.kit.records import Record
from loopty.sandboxes.gaps import counts_processes_by_namespace

# A question takes 50 ms; a storage that is busy with another image can delay an engine for long.
_ANSWER_SECONDS = 120.0
_PREFERRED = ("podman", "docker")
# The engine, the programs it starts and Go's run time act on these variables: they get the host's values, never a
# trial's. Nothing else of the host's environment reaches them.
_ENGINE_VARIABLES = re.compile(
    r"PATH|HOME|USER|LOGNAME|TMPDIR|NOTIFY_SOCKET|GODEBUG|GOGC|GOMAXPROCS|GOMEMLIMIT|GOTRACEBACK"
    r"|(LD|LISTEN|XDG|DBUS|DOCKER|CONTAINERS?|_CONTAINERS|PODMAN|BUILDAH|STORAGE|REGISTRY)_.*"
)


class EngineKind(StrEnum):
    """Which command line the program has."""

    PODMAN = "podman"
    DOCKER = "docker"


class ContainerState(Record):
    """What an engine knows about a container. `first_pid` is its first process, 0 when it is not running."""

    started: bool
    code: int
    out_of_memory: bool
    first_pid: int


class Image(Record):
    """An image by its content id, and the directories that it declares as volumes."""

    id: str
    volumes: tuple[str, ...]


class ContainerEngine(Record):
    """A program that runs containers, as it describes itself."""

    program: str
    kind: EngineKind
    rootless: bool
    controllers: frozenset[str]
    seccomp: bool
    counts_processes: bool
    """Whether a limit on a user's processes counts the processes of one container only."""
    profile: str = ""
    """The file with its system call filter, or empty when it names none."""

    def state(self, name: str) -> ContainerState | None:
        """Return the state of a container, or None when no container has that name."""
        done = _run_engine(self.program, "inspect", "--type", "container", "--format", "{{json .State}}", name)
        if done.returncode != 0:
            return None
        fields = json.loads(done.stdout)
        # Go's zero time: the container was created, and then something failed.
        started = not fields["StartedAt"].startswith("0001-")
        return ContainerState(started, fields["ExitCode"], bool(fields["OOMKilled"]), fields["Pid"])

    def image(self, name: str) -> Image:
        """Return the image of that name. Raises SandboxError if it is not on this machine: we fetch no images."""
        done = _run_engine(self.program, "image", "inspect", "--format", "{{.Id}} {{json .Config.Volumes}}", name)
        if done.returncode != 0:
            raise SandboxError(failure_message(self.program, done.stderr, name))
        id_, _, volumes = done.stdout.partition(" ")
        return Image(id_, tuple(json.loads(volumes) or ()))

    def container_names(self, prefix: str) -> tuple[str, ...]:
        """List the names of all containers that begin with `prefix`, also of dead ones."""
        done = _run_engine(self.program, "ps", "--all", "--filter", f"name=^{prefix}", "--format", "{{.Names}}")
        return tuple(done.stdout.split())

    def remove_if_ended(self, name: str) -> bool:
        """Remove a container that has ended; false when it is alive or does not exist."""
        return _run_engine(self.program, "rm", "--volumes", name).returncode == 0

    def remove(self, *names: str) -> None:
        """Kill these containers and remove them; those that do not exist are skipped."""
        done = _run_engine(self.program, "rm", "--force", "--volumes", *names)
        if done.returncode != 0 and any(self.state(name) is not None for name in names):
            raise SandboxError(
                f"cannot remove container {', '.join(names)}: {failure_message(self.program, done.stderr)}"
            )


def engine_of(name: str) -> ContainerEngine:
    """Return the engine of that name, or for "auto" the first that is installed: podman, then docker.

    Raises SandboxError when the engine is not installed or does not answer.
    """
    program = find_program(name)
    done = _run_engine(program, "info", "--format", "{{json .}}")
    fields = json.loads(done.stdout or "{}")
    # Docker's program describes itself even when it cannot reach its daemon.
    if done.returncode != 0 or fields.get("ServerErrors"):
        raise SandboxError(failure_message(program, "\n".join([*fields.get("ServerErrors", ()), done.stderr])))
    # We go by the answer, because some distributions install podman under docker's name.
    return _podman_engine(program, fields["host"]) if "host" in fields else _docker_engine(program, fields)


def engine_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Make the environment for an engine's program: its variables from the host, all others from `variables`."""
    own = {name: value for name, value in os.environ.items() if is_engine_variable(name)}
    return own | {name: value for name, value in (variables or {}).items() if not is_engine_variable(name)}


def is_engine_variable(name: str) -> bool:
    """Say whether an engine's program would itself act on a variable of that name."""
    return _ENGINE_VARIABLES.fullmatch(name) is not None


def limits_to_inherit() -> dict[str, str]:
    """Return limits to pass explicitly: an engine's defaults may be above what this process may pass on."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Podman accepts at most the number of possible pids.
    pid_max = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = pid_max if hard == resource.RLIM_INFINITY else min(hard, pid_max)
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
        # Each container of a rootless podman has its own user namespace.
        counts_processes=rootless and counts_processes_by_namespace(),
        profile=security.get("seccompProfilePath", ""),
    )


def _docker_engine(program: str, fields: Mapping[str, Any]) -> ContainerEngine:
    options = {option.split(",")[0] for option in fields.get("SecurityOptions") or ()}
    support = {"memory": fields.get("MemoryLimit"), "pids": fields.get("PidsLimit")}
    controllers = frozenset(name for name, has_it in support.items() if has_it)
    return ContainerEngine(
        program, EngineKind.DOCKER, "name=rootless" in options, controllers, "name=seccomp" in options, False
    )


def find_program(name: str) -> str:
    wanted = _PREFERRED if name == "auto" else (name,)
    found = [path for candidate in wanted if (path := shutil.which(candidate)) is not None]
    for path in found:
        # A program whose daemon is not there stands aside for the other, and says why where it is the only one.
        if len(found) == 1 or _answers(path):
            return path
    if found:
        return found[0]
    raise SandboxError(f"{' or '.join(wanted)} is not installed: apt install podman")


def _answers(program: str) -> bool:
    done = _run_engine(program, "info", "--format", "{{json .}}")
    return done.returncode == 0 and not json.loads(done.stdout or "{}").get("ServerErrors")


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
            # loopty itself handles a Ctrl-C in the terminal.
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"cannot start {program}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"{program} {words[0]} did not answer within {_ANSWER_SECONDS:.0f} s") from error


# Parts of an engine's messages, in lower case, and the remedy; the first match counts.
_ADVICE = (
    (("image not known", "no such image", "unable to find image"), "fetch it first: {engine} pull {image}"),
    (
        ("permission denied while trying to connect", "docker.sock: connect: permission denied"),
        "let this user reach the daemon (group docker), or use podman, which needs no daemon",
    ),
    (
        ("cannot connect to the docker daemon", "is the docker daemon running"),
        "start the daemon (systemctl start docker), or use podman, which needs none",
    ),
    (
        ("unresolvable cdi devices",),
        "describe the GPUs to the engine: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    ),
    (
        ("could not select device driver",),
        "set up GPUs for the engine: nvidia-ctk runtime configure --runtime=docker, and restart the daemon",
    ),
    (("container-init binary", "docker-init"), "install the engine's init: apt install catatonit or tini"),
    (
        ("newuidmap", "newgidmap", "/etc/subuid", "subordinate"),
        "apt install uidmap, and give the user a range: usermod --add-subuids 100000-165535 "
        "--add-subgids 100000-165535 $USER",
    ),
    (
        ("cgroups in hybrid mode not supported",),
        'apt install runc, and write runtime = "runc" under [engine] in /etc/containers/containers.conf',
    ),
    (
        ("cannot clone: operation not permitted", "user namespaces are not enabled"),
        "user namespaces are off: sysctl kernel.unprivileged_userns_clone=1",
    ),
)


def failure_message(program: str, stderr: str, image: str = "IMAGE") -> str:
    """Return the engine's own error message in one line, with the remedy if we know one."""
    engine = PurePath(program).name
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    message = next(iter(errors or lines), "it was killed from outside")
    advice = _advice(stderr.lower()).format(engine=engine, image=image)
    return f"{engine} failed: {message}" + (f"; {advice}" if advice else "")


def _advice(words: str) -> str:
    return next((advice for parts, advice in _ADVICE if any(part in words for part in parts)), "")
