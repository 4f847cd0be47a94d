"""Runs the commands of a benchmark, its gates or any other on a node's files: in the candidate's sandbox, in their
own, or in a writable copy.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from loopty.domain.benchmark import Benchmark, Limits
from loopty.domain.launch import Exit, Launch, Mount, Protection, Sandbox, Stop, WarmStart
from loopty.domain.trial import Integrity
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators import contract
from loopty.evaluators.candidate_stillness import CandidateConduct
from loopty.evaluators.contract import SandboxPaths
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile
from loopty.kit.temporary_folder import temporary_folder

if TYPE_CHECKING:
    from loopty.evaluators.warm_commands import WarmCommands


FindTampering = Callable[[Trial], str | None]
"""What changed in the benchmark of a trial since its stage was made, or None."""

_NEEDED_FOR_ISOLATION = {Protection.WRITE, Protection.READ, Protection.OTHERS, Protection.NETWORK}


class TamperingFound(Exception):  # noqa: N818 - a finding about the trial, which becomes its outcome
    """What changed in the benchmark while one of its commands ran."""


class Command(Record):
    """One command of the benchmark."""

    argv: tuple[str, ...]
    seconds: float
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    stdout: SafeFile
    stderr: SafeFile
    """In the same folder. A log is there where something was printed."""
    may_be_warm: bool = False
    """Whether it may start as a copy of a warm process."""
    needs_result: bool = True
    """Whether it has to publish a result."""


class CommandEnd(Record):
    """How a command ended, and what the candidates that it called did outside its calls."""

    exit: Exit
    conduct: CandidateConduct


class BenchmarkRunner:
    """Runs commands of the benchmark on the stage of a trial."""

    def __init__(
        self,
        benchmark: Benchmark,
        limits: Limits,
        sandbox: Sandbox,
        paths: SandboxPaths,
        env: Mapping[str, str],
        mounts: Sequence[Mount],
        find_tampering: FindTampering,
        devices: Sequence[str] = (),
        warm: WarmCommands | None = None,
    ) -> None:
        self._benchmark = benchmark
        self._limits = limits
        self._sandbox = sandbox
        self._paths = paths
        self._env = env
        self._mounts = tuple(mounts)
        self._find_tampering = find_tampering
        self._devices = tuple(devices)
        self._warm = warm
        self.unenforced = tuple(gap.words for gap in sandbox.gaps)
        gaps = {gap.protection for gap in sandbox.gaps}
        strong = benchmark.isolated and not gaps & _NEEDED_FOR_ISOLATION
        self.integrity = Integrity.STRONG if strong else Integrity.WEAK

    async def run(self, trial: Trial, stage: Stage, command: Command, cancel: asyncio.Event) -> CommandEnd:
        """Run a command to its end; no process of the trial is alive afterwards.

        Raises SandboxError when the sandbox failed and TamperingFound when the benchmark was changed.
        """
        top = self._paths.benchmark if self._benchmark.isolated else self._paths.tree
        async with self._candidate_access(trial, stage, command.seconds) as access:
            mounts = (*self._mounts, *command.mounts, *access.mounts)
            scratch = tuple(f"{top}/{path.strip('/')}" for path in self._benchmark.scratch)
            logs = command.stdout.folder.path_for_programs(may_be_missing=True)
            launch = Launch(
                argv=self._argv(command.argv, top, mounts, scratch),
                cwd=top,
                bounds=self._limits.bounds(command.seconds),
                stdout=logs / command.stdout.name,
                stderr=logs / command.stderr.name,
                keeps_empty_logs=False,
                env={**self._env, **self._benchmark.env, **command.env, **access.env},
                mounts=mounts,
                scratch=scratch,
                links=self._paths.links_to(top),
                devices=self._devices,
                network=self._benchmark.network,
                warm=self._warm_start(trial, command),
            )
            end = await self._sandbox.run(launch, cancel)
        if reason := await asyncio.to_thread(self._find_tampering, trial):
            raise TamperingFound(reason)
        return CommandEnd(end, access.conduct)

    def _warm_start(self, trial: Trial, command: Command) -> WarmStart | None:
        if self._warm is None or not command.may_be_warm:
            return None
        return self._warm.start(trial, command.argv, {**self._env, **self._benchmark.env}, self._mounts)

    async def run_in_tree(
        self, trial: Trial, stage: Stage, command: TreeCommand, cancel: asyncio.Event
    ) -> TreeCommandEnd:
        """Run any command in the candidate's tree, with what the candidate sees; its output passes through."""
        seconds, tree = command.seconds or self._benchmark.timeout_seconds, self._paths.tree
        isolated = self._benchmark.isolated
        if isolated:
            environment = contract.candidate_environment(trial, self._paths)
        else:
            environment = contract.benchmark_environment(trial, self._benchmark, self._paths)
        scratch = () if isolated else self._benchmark.scratch
        with temporary_folder("try") as folder:
            stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
            launch = Launch(
                argv=command.argv,
                cwd=tree,
                bounds=self._limits.bounds(seconds),
                stdout=stdout,
                stderr=stderr,
                env={**self._env, **self._benchmark.env, **environment},
                mounts=(*self._mounts, *(stage.candidate if isolated else stage.mounts)),
                scratch=tuple(f"{tree}/{path.strip('/')}" for path in scratch),
                network=self._benchmark.network,
            )
            async with OutputFollower(command, stdout, stderr).follow():
                end = await self._sandbox.run(launch, cancel)
        return TreeCommandEnd(end.code, self.stop_reason(end.stop, seconds) if end.stop else "")

    def _argv(
        self, argv: tuple[str, ...], top: str, mounts: Sequence[Mount], scratch: Sequence[str]
    ) -> tuple[str, ...]:
        if not self._benchmark.writable_copy:
            return argv
        # Only what the host has at the same place of the repository: other mounts are changes of the node.
        host_top = self._paths.host_top
        caches = (f"{top}/{path.strip('/')}" for path in self._benchmark.caches)
        shown = [one.target for one in mounts if f"{host_top}{one.target.removeprefix(top)}" == str(one.source)]
        return in_writable_copy(argv, top, (*shown, *scratch, *caches), has_links=self._sandbox.name == "landlock")

    def stop_reason(self, stop: Stop, seconds: float) -> str:
        """Name the limit that ended a command."""
        limits = self._limits
        return {
            Stop.TIME: f"still running after {seconds:g} s",
            Stop.MEMORY: f"used more than {limits.memory_mb} MB of memory",
            Stop.OUTPUT: f"printed more than {limits.output_mb} MB",
            Stop.DISK: f"wrote more than {limits.disk_mb} MB to disk",
            Stop.CANCELLED: "stopped on request",
        }[stop]

    @contextlib.asynccontextmanager
    async def _candidate_access(
        self, trial: Trial, stage: Stage, seconds: float
    ) -> AsyncIterator[_CandidateAccess]:
        """Open the access of a command to the candidate, when they run in separate sandboxes.

        `seconds` is the limit of the command: a gate may take longer than the benchmark.
        """
        if not self._benchmark.isolated:
            yield _CandidateAccess({}, (), CandidateConduct())
            return
        from loopty.evaluators.candidate_server import CandidateLimits, CandidateServer

        # The SDK is not on the candidate's path: it is not part of the candidate, and is started by its own path.
        env = {name: value for name, value in self._env.items() if name != "PYTHONPATH"}
        env |= contract.candidate_environment(trial, self._paths)
        network = self._benchmark.network
        paths = self._paths
        server = f"{paths.sdk}/serve.py"
        links = paths.links_to(paths.tree)
        limits = CandidateLimits(
            task_limits=self._limits,
            seconds=seconds,
            tree=paths.tree,
            server=server,
            env=env,
            mounts=self._mounts,
            network=network,
            links=links,
            devices=self._devices,
        )
        candidates = CandidateServer(self._sandbox, stage, limits)
        async with candidates.serve() as socket:
            target = paths.candidate
            yield _CandidateAccess({"LOOPTY_CANDIDATE": target}, (Mount(socket, target),), candidates.conduct)


class _CandidateAccess(Record):
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    conduct: CandidateConduct


Write = Callable[[str], object]
_PERIOD_SECONDS = 0.05
_CHUNK_BYTES = 1 << 16


class TreeCommand(Record):
    """A command, and where its output goes."""

    argv: tuple[str, ...]
    write_stdout: Write
    write_stderr: Write
    seconds: float | None = None
    """None: the time of the benchmark."""


class TreeCommandEnd(Record):
    """How the command ended."""

    code: int
    stopped: str = ""
    """The limit that it reached, in words; empty when it ended by itself."""


class OutputFollower:
    """Passes on what a command appends to its two output files."""

    def __init__(self, command: TreeCommand, stdout: Path, stderr: Path) -> None:
        self._outputs = [_Output(stdout, command.write_stdout), _Output(stderr, command.write_stderr)]

    @contextlib.asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Pass it on as it comes while the context is open, and the rest at its end."""
        following = asyncio.create_task(self._pass_on_again_and_again())
        try:
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            self.pass_on(is_end=True)

    async def _pass_on_again_and_again(self) -> None:
        while True:
            self.pass_on()
            await asyncio.sleep(_PERIOD_SECONDS)

    def pass_on(self, is_end: bool = False) -> None:
        """Pass on what has come since the last time."""
        for output in self._outputs:
            output.pass_on(is_end)


class _Output:
    def __init__(self, path: Path, write: Write) -> None:
        self._path = path
        self._write = write
        self._file: IO[bytes] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def pass_on(self, is_end: bool) -> None:
        if self._file is None:
            with contextlib.suppress(FileNotFoundError):
                self._file = self._path.open("rb")
        while self._file and (chunk := self._file.read(_CHUNK_BYTES)):
            self._write(self._decoder.decode(chunk))
        if is_end:
            self._write(self._decoder.decode(b"", final=True))
            if self._file:
                self._file.close()


# Environments and scratch directories at the top of the tree are linked: they would take long to copy, or are for
# writing. Times are kept, because build tools compare them. Without namespaces, changed directories of a node are
# links, and may hold others; they become copies. Of node_modules each package is linked, because test runners and
# compilers of JavaScript keep what they have compiled in node_modules/.cache.
_SCRIPT = """set -e
tree="${TMPDIR:?}/tree" linked=":$1:" has_links="$2"
shift 2
mkdir "$tree"
for name in * .[!.]* ..?*; do
    [ -e "$name" ] || [ -L "$name" ] || continue
    case "$linked" in
        *":$name:"*) ;;
        *) cp -a -- "$name" "$tree/" ;;
    esac
done
for _ in $has_links; do
    find "$tree" -type l -lname "/*" -exec sh -c '
        for link; do
            [ ! -e "$link" ] || { cp -aH -- "$link" "$link~" && rm -- "$link" && mv -- "$link~" "$link"; }
        done' copy {} +
done
for name in * .[!.]* ..?*; do
    case "$linked" in
        *":$name:"*)
            if [ "$name" = node_modules ]; then
                mkdir "$tree/$name"
                find -H "$PWD/$name" -mindepth 1 -maxdepth 1 ! -name .cache -exec ln -s -t "$tree/$name" -- {} +
            else
                ln -s "$PWD/$name" "$tree/$name"
            fi ;;
    esac
done
cd "$tree"
export EVO_WORKTREE="$tree"
exec "$@"
"""


def in_writable_copy(
    argv: tuple[str, ...], top: str, linked: Iterable[str], has_links: bool = False
) -> tuple[str, ...]:
    """Make the command that copies the tree at `top` and runs there; it links paths of `linked` directly below.

    `has_links`: whether changed directories of the tree are links.
    """
    names = sorted({PurePosixPath(path).name for path in linked if str(PurePosixPath(path).parent) == top})
    return ("/bin/sh", "-c", _SCRIPT, "copy", ":".join(names), "1 2 3" if has_links else "", *argv)
