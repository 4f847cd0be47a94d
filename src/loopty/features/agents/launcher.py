"""Starts a coding agent in the sandbox, follows its stream and its signs of life, and says how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import loopty_sdk
from loopty.domain.errors import Misuse
from loopty.domain.launch import Bounds, Connection, Freezer, Launch, Mount, Sandbox, Stop
from loopty.evaluators.benchmark_runner import OutputFollower, TreeCommand
from loopty.features.agents.socket_traffic import connections_of
from loopty.kit import untrusted_files
from loopty.kit.records import Record, field, replace
from loopty.kit.safe_folder import SafeFolder
from loopty.proposers.agent.driver import AgentCommand, AgentDriver
from loopty.proposers.agent.stalls import Stall, StallLimits, StallWatch, Vitals
from loopty.proposers.agent.stream import AgentEvent, AgentStream
from loopty.proposers.agent.work import AgentChoice, SessionEnd, classify_end, end_of_stall
from loopty.sandboxes.installations import program_folders
from loopty.sandboxes.toolchain import Toolchain, command_programs, is_shown_by_default, user_toolchain

_SMALLEST_REQUEST = 256
"""Bytes. What is sent in answer to an answer is shorter: acknowledgements of HTTP/2 and TLS."""


class RequestWatch:
    """Watches the connections of one agent. It reads no clock, so that a test needs no time."""

    def __init__(self) -> None:
        self._last: Mapping[int, Connection] = {}
        self._sent: dict[int, int] = {}
        """What each connection has sent since something came back."""
        self._pending: dict[int, float] = {}
        """The connections with a request that nothing has come back for, and since when."""

    def unanswered_seconds(self, connections: Mapping[int, Connection] | None, now: float) -> float:
        """Return how long the newest request has had no answer, not even its beginning; 0: no request waits.

        Requests to a model have all that was said so far, so the connection that has sent most is meant: reports
        to others, which nobody may answer, are short.
        """
        for name, connection in (connections or {}).items():
            self._note(name, connection, now)
        self._last = connections or {}
        for gone in self._pending.keys() - self._last.keys():
            del self._pending[gone]
        largest = max(self._last, key=lambda name: self._last[name].sent, default=None)
        if largest is None:
            return 0.0
        is_connecting = not self._last[largest].sent
        since = min(self._pending.values(), default=None) if is_connecting else self._pending.get(largest)
        return now - since if since is not None else 0.0

    def _note(self, name: int, connection: Connection, now: float) -> None:
        before = self._last.get(name, Connection())
        has_come = connection.received > before.received
        sent = connection.sent - before.sent
        self._sent[name] = sent if has_come else self._sent.get(name, 0) + sent
        if has_come and not (connection.is_sent_last and self._sent[name] >= _SMALLEST_REQUEST):
            self._pending.pop(name, None)
            self._sent[name] = 0
            return
        is_request = connection.is_connecting or (sent > 0 and self._sent[name] >= _SMALLEST_REQUEST)
        if is_request and (has_come or name not in self._pending):
            self._pending[name] = now


_LOOK_SECONDS = 1.0


class LifeSigns:
    """Looks at a running agent once a second, and stops it when it stalls."""

    def __init__(
        self, limits: StallLimits, is_asking: Callable[[], bool], served_tokens: Callable[[], int] | None
    ) -> None:
        """`is_asking` says whether the agent waits for loopty: for its model, or for a tool.

        `served_tokens` counts those of the model that loopty serves; None: the agent has a login of its own.
        """
        self.stall: Stall | None = None
        self._watch = StallWatch(limits, time.monotonic())
        self._is_asking = is_asking
        self._period = min(_LOOK_SECONDS, limits.silence_seconds / 4)
        self._processes: Freezer | None = None
        self._requests = RequestWatch()
        self._served_tokens = served_tokens
        self._sees_connections = served_tokens is None and (limits.is_plain or limits.answer_seconds is not None)

    def start(self, processes: Freezer) -> None:
        """Watch the agent's program, which starts now."""
        self._processes = processes
        self._watch.hear(time.monotonic(), 0)

    def note(self, event: AgentEvent) -> None:
        self._watch.note(event, time.monotonic())

    def hear(self, text: str, stream: AgentStream) -> None:
        if text:
            self._watch.hear(time.monotonic(), stream.usage.tokens)

    def hear_errors(self, text: str) -> None:
        if text:
            self._watch.hear(time.monotonic(), 0)

    async def look(self, stop: asyncio.Event) -> None:
        """Look again and again; set `stop` at a stall."""
        while self.stall is None:
            await asyncio.sleep(self._period)
            cpu = await asyncio.to_thread(self._cpu_seconds)
            connections = await asyncio.to_thread(self._connections)
            now = time.monotonic()
            unanswered = self._requests.unanswered_seconds(connections, now)
            served = self._served_tokens() if self._served_tokens else None
            traffic = None if connections is None else sum(one.sent + one.received for one in connections.values())
            self.stall = self._watch.stall(Vitals(now, cpu, self._is_asking(), unanswered, served, traffic))
        stop.set()

    def _connections(self) -> Mapping[int, Connection] | None:
        if not self._sees_connections or not self._processes:
            return None
        try:
            return connections_of(self._processes.processes())
        except OSError:
            return None

    def _cpu_seconds(self) -> float | None:
        try:
            return self._processes.cpu_seconds() if self._processes else None
        except OSError:
            return None


HOME = "/loopty/home"
TREE = "/loopty/tree"
MODEL_PORT = 8790
"""Inside a sandbox without a network, where every port is free."""
MODEL_ADDRESS = f"http://127.0.0.1:{MODEL_PORT}"
_SDK = "/loopty/sdk"
_SDK_SOURCE = Path(loopty_sdk.__file__).resolve().parent
_MODEL_SOCKET = "/loopty/model"
_TOOLS_SOCKET = "/loopty/tools"
_PROGRAMS = ".loopty-bin"
"""Below the agent's home: the program by which it calls its tools."""
_TOOL = "agent_tool.py"
_CALL_TOOL = f'#!/bin/sh\nexec python3 -I -S -B "${{0%/*}}/{_TOOL}" "$@"\n'
# For agents that run `bash -l`: the profile of a system or an image sets PATH from scratch.
_PROFILE = f'PATH="$HOME/{_PROGRAMS}:$PATH"\n'
_PROMPT_FILE = ".loopty-prompt.md"
PROMPT_FILE = f"{HOME}/{_PROMPT_FILE}"
_PROCESSES = 1024
_OUTPUT_MB = 256
_STDERR_BYTES = 1 << 14
_LARGEST_RESULT = 64 << 20


class AgentJob(Record):
    """One start of an agent."""

    command: AgentCommand
    prompt: str
    tree: tuple[Mount, ...]
    home: SafeFolder
    folder: SafeFolder
    """Where its output is kept."""
    part: int
    """How often the session was started, from 1: each part has files of its own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The user's variables that it may see."""
    model_socket: Path | None = None
    """Where its model is served; None: it uses the network and its own login."""
    is_asking: Callable[[], bool] | None = None
    """Whether a request to its model is being answered; None where loopty does not see that."""
    served_tokens: Callable[[], int] | None = None
    """Tokens that its model used; None where loopty does not see them."""
    tools_socket: Path | None = None
    """Where its tools are served."""
    is_waiting: Callable[[], bool] = lambda: False
    """Whether it waits for one of its tools."""

    @property
    def output_name(self) -> str:
        return f"output-{self.part}"

    @property
    def error_name(self) -> str:
        return f"errors-{self.part}"


class AgentRun(Record):
    """What an agent said, and how it ended."""

    stream: AgentStream
    end: SessionEnd


Watch = Callable[[AgentStream], str]
"""Says why an agent must stop now, given its stream so far; empty when it may go on."""

OnStream = Callable[[AgentStream], None]


class AgentLauncher:
    """Runs one agent, any number of times."""

    def __init__(
        self,
        driver: AgentDriver,
        choice: AgentChoice,
        sandbox: Sandbox,
        trial_owner: tuple[int, int] | None,
        top: Path | None = None,
        environments: tuple[Path, ...] = (),
    ) -> None:
        """`environments` are folders of the repository at `top` with programs and packages. Raises Misuse."""
        self.driver = driver
        self.choice = choice
        self._sandbox = sandbox
        self._trial_owner = trial_owner
        self._environments = environments
        self._toolchain, self._programs = _programs(driver, choice, top, environments)

    async def run(
        self, job: AgentJob, watch: Watch = lambda _: "", on_stream: OnStream = lambda _: None
    ) -> AgentRun:
        """Run the agent to its end or to its limit; no process of it is alive afterwards, even when cancelled.

        `on_stream` is called at the start with the stream, which grows meanwhile.
        """
        await asyncio.to_thread(self._prepare, job)
        stream, stop, reasons = AgentStream(self.driver.read_line), asyncio.Event(), list[str]()
        limits = self.choice.stalls.limits(self.driver, job.is_asking is not None)
        life = LifeSigns(
            limits, lambda: job.is_waiting() or bool(job.is_asking and job.is_asking()), job.served_tokens
        )
        stream.on_event = life.note

        def feed(text: str) -> None:
            stream.feed(text)
            life.hear(text, stream)
            if not reasons and (reason := watch(stream)):
                reasons.append(reason)
                stop.set()

        on_stream(stream)
        launch = replace(self._launch(job), on_start=life.start)
        follower = OutputFollower(TreeCommand((), feed, life.hear_errors), launch.stdout, launch.stderr)
        looking = asyncio.create_task(life.look(stop)) if self.choice.stalls.watch else None
        try:
            async with follower.follow():
                end = await self._sandbox.run(launch, stop)
        finally:
            if looking:
                looking.cancel()
            stream.close()
            self._read_result(job, stream)
        if life.stall and not reasons and end.stop is Stop.CANCELLED:
            return AgentRun(stream, end_of_stall(life.stall))
        limit = reasons[0] if reasons else self._limit_words(end.stop)
        errors = job.folder.file(job.error_name).read(_STDERR_BYTES, tail=True).decode(errors="replace")
        return AgentRun(stream, classify_end(stream, end.code, limit, errors))

    def _prepare(self, job: AgentJob) -> None:
        for name, text in {**job.command.files, _PROMPT_FILE: job.prompt}.items():
            *above, last = PurePosixPath(name).parts
            job.home.below(*above).file(last).write(text.encode(errors="replace"))
        if job.tools_socket is not None:
            job.home.file(".profile").write(_PROFILE.encode())
            programs = job.home.below(_PROGRAMS)
            programs.file(_TOOL).write(_SDK_SOURCE.joinpath(_TOOL).read_bytes())
            programs.file("loopty").write(_CALL_TOOL.encode(), mode=0o777)
        if self._trial_owner:
            with job.home.handle() as top:
                for _, directories, names, inner in os.fwalk(".", dir_fd=top):
                    os.fchown(inner, *self._trial_owner)
                    for name in (*directories, *names):
                        os.chown(name, *self._trial_owner, dir_fd=inner, follow_symlinks=False)

    def _launch(self, job: AgentJob) -> Launch:
        choice, command = self.choice, job.command
        mounts = [*self._mounts(), *job.tree, Mount(job.home.path_for_programs(), HOME, writable=True)]
        argv, env = command.argv, {**job.variables, **command.env}
        if command.sdk_program or job.model_socket is not None:
            mounts.append(Mount(_SDK_SOURCE, f"{_SDK}/loopty_sdk"))
        if command.sdk_program:
            argv = _with_sdk_program(command.sdk_program, argv)
        if job.model_socket is not None:
            mounts.append(Mount(job.model_socket, _MODEL_SOCKET))
            env |= {"LOOPTY_MODEL_SOCKET": _MODEL_SOCKET, "LOOPTY_MODEL_PORT": str(MODEL_PORT)}
            argv = _with_sdk_program("model_port.py", argv)
        path = env.pop("PATH", self._path)
        if job.tools_socket is not None:
            mounts.append(Mount(job.tools_socket, _TOOLS_SOCKET))
            env["LOOPTY_TOOLS_SOCKET"] = _TOOLS_SOCKET
            # First: the loopty of an active environment is in the user's search path, and cannot run here.
            path = f"{HOME}/{_PROGRAMS}:{path}"
        own = {"PATH": path, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "HOME": HOME}
        return Launch(
            argv=argv,
            cwd=TREE,
            bounds=Bounds(choice.timeout_seconds, choice.memory_mb, _PROCESSES, _OUTPUT_MB, choice.disk_mb),
            stdout=job.folder.file(job.output_name).path_for_programs(),
            stderr=job.folder.file(job.error_name).path_for_programs(),
            env={**self._toolchain.variables, **own, **env},
            mounts=tuple(mounts),
            network=job.model_socket is None,
        )

    def _mounts(self) -> Iterator[Mount]:
        shown = self._toolchain.prefixes
        more = [path for path in (*self._programs, *self._environments) if not is_shown_by_default(path, shown)]
        for path in dict.fromkeys((*shown, *more)):
            yield Mount(path.resolve(), str(path))

    @property
    def _path(self) -> str:
        """Return the search path: the agent's own folder first, for its name may mean another program."""
        program = shutil.which(self.driver.program) if self.driver.program else None
        first = [str(Path(program).parent)] if program else []
        programs = [str(folder / "bin") for folder in self._environments]
        return ":".join(dict.fromkeys([*first, *self._toolchain.path.split(":"), *programs]))

    def _read_result(self, job: AgentJob, stream: AgentStream) -> None:
        if not self.driver.result_file:
            return
        with contextlib.suppress(OSError, untrusted_files.Unreadable), job.home.handle() as home:
            content = untrusted_files.content(Path(self.driver.result_file), _LARGEST_RESULT, home)
            for event in self.driver.read_result(content or b""):
                stream.apply(event)

    def _limit_words(self, stop: Stop | None) -> str:
        if stop is None:
            return ""
        choice = self.choice
        return {
            Stop.TIME: f"still working after {choice.timeout_seconds:g} s (timeout_seconds)",
            Stop.MEMORY: f"used more than {choice.memory_mb} MB of memory (memory_mb)",
            Stop.OUTPUT: f"printed more than {_OUTPUT_MB} MB",
            Stop.DISK: f"wrote more than {choice.disk_mb} MB to disk (disk_mb)",
            Stop.CANCELLED: "stopped",
        }[stop]


def _with_sdk_program(name: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command as a program of the SDK starts it."""
    return ("python3", "-I", "-S", "-B", f"{_SDK}/loopty_sdk/{name}", *argv)


def require_program(driver: AgentDriver) -> None:
    """Raise Misuse where the agent is not installed."""
    if driver.program and shutil.which(driver.program) is None:
        raise Misuse(
            f"{driver.name} is not installed ({driver.program} is not on your PATH): {driver.install}; "
            f"`loopty doctor --agent {driver.name}` says more"
        )


def read_output(folder: SafeFolder, name: str, stream: AgentStream) -> None:
    """Read the whole output of an earlier start."""
    path = folder.file(name).path_for_programs()
    OutputFollower(TreeCommand((), stream.feed, _ignore), path, path).pass_on(is_end=True)
    stream.close()


def _ignore(_text: str) -> None:
    pass


def _programs(
    driver: AgentDriver, choice: AgentChoice, top: Path | None, environments: tuple[Path, ...]
) -> tuple[Toolchain, list[Path]]:
    """Find the user's toolchain, and what the agent's own program needs besides."""
    require_program(driver)
    home = Path(os.environ.get("HOME") or "/nonexistent")
    if not driver.program:
        names = command_programs([choice.command], None)
        return user_toolchain(names, top, environments), []
    program = shutil.which(driver.program)
    assert program is not None
    return user_toolchain((driver.program, "node"), top, environments), list(program_folders(Path(program), home))
