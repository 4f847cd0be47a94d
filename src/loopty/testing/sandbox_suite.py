"""Tests that every sandbox must pass: subclass SandboxConformance and give it a `sandbox` fixture."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from loopty.domain.launch import Bounds, Exit, Launch, Mount, Sandbox, SandboxError, Stop

_BOUNDS = Bounds(seconds=30.0, memory_mb=512, processes=64, output_mb=2, disk_mb=64)


class SandboxConformance:
    """The contract of the Sandbox protocol, as tests (for pytest with asyncio in automatic mode)."""

    async def test_the_exit_code_and_both_streams_are_returned(self, sandbox: Sandbox, tmp_path: Path) -> None:
        result = await self._run_shell(sandbox, tmp_path, "echo out; echo err >&2; exit 7")
        assert (result.code, result.stop) == (7, None)
        assert (tmp_path / "stdout").read_text() == "out\n"
        assert (tmp_path / "stderr").read_text() == "err\n"

    async def test_a_command_sees_its_mounts_and_its_environment(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "seen").mkdir()
        (tmp_path / "seen" / "note").write_text("hello")
        result = await self._run_shell(sandbox, tmp_path, 'cat note; echo "$WORD"', env={"WORD": "there"})
        assert result.code == 0
        assert (tmp_path / "stdout").read_text() == "hellothere\n"

    async def test_the_time_limit_ends_a_command(self, sandbox: Sandbox, tmp_path: Path) -> None:
        bounds = Bounds(0.3, 512, 64, 2, 64)
        assert (await self._run_shell(sandbox, tmp_path, "sleep 60", bounds=bounds)).stop is Stop.TIME

    async def test_the_output_limit_ends_a_command(self, sandbox: Sandbox, tmp_path: Path) -> None:
        result = await self._run_shell(
            sandbox, tmp_path, "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"
        )
        assert result.stop is Stop.OUTPUT
        assert (tmp_path / "stdout").stat().st_size <= 2 << 20

    async def test_cancelling_ends_a_command(self, sandbox: Sandbox, tmp_path: Path) -> None:
        cancel = asyncio.Event()
        asyncio.get_running_loop().call_later(0.2, cancel.set)
        assert (await self._run_shell(sandbox, tmp_path, "sleep 60", cancel=cancel)).stop is Stop.CANCELLED

    async def test_background_processes_are_dead_on_return(self, sandbox: Sandbox, tmp_path: Path) -> None:
        token = f"left-running-{tmp_path.name}"
        await self._run_shell(sandbox, tmp_path, f"(exec sleep 61 {token} >/dev/null 2>&1) & sleep 0.1")
        alive = [path for path in Path("/proc").glob("[0-9]*/cmdline") if token.encode() in _read(path)]
        assert alive == []

    async def test_a_channel_is_the_command_s_standard_input_and_output(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        ours, theirs = socket.socketpair()
        ours.sendall(b"question\n")
        with ours:
            result = await self._run_shell(
                sandbox, tmp_path, "read -r line; echo answer to $line; echo err >&2", channel=theirs.detach()
            )
            assert result.code == 0
            # Reads to the end: no process, this one included, holds the other side open any more.
            assert ours.makefile("rb").read() == b"answer to question\n"
        assert (tmp_path / "stderr").read_text() == "err\n"
        assert not (tmp_path / "stdout").exists()

    async def test_the_command_sees_the_end_of_a_channel(self, sandbox: Sandbox, tmp_path: Path) -> None:
        ours, theirs = socket.socketpair()
        asyncio.get_running_loop().call_later(0.2, ours.close)
        result = await self._run_shell(sandbox, tmp_path, "cat >/dev/null; exit 5", channel=theirs.detach())
        assert (result.code, result.stop) == (5, None)

    async def test_a_channel_is_closed_when_the_command_cannot_start(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        ours, theirs = socket.socketpair()
        with ours:
            missing = (Mount(tmp_path / "missing", "/seen"),)
            failure = None
            try:
                await self._run_shell(sandbox, tmp_path, "true", mounts=missing, channel=theirs.detach())
            except SandboxError as error:
                failure = error
            assert failure is not None
            assert ours.recv(1) == b""

    async def _run_shell(
        self,
        sandbox: Sandbox,
        tmp_path: Path,
        script: str,
        bounds: Bounds = _BOUNDS,
        env: dict[str, str] | None = None,
        cancel: asyncio.Event | None = None,
        mounts: tuple[Mount, ...] = (),
        channel: int | None = None,
    ) -> Exit:
        (tmp_path / "seen").mkdir(exist_ok=True)
        launch = Launch(
            argv=("/bin/sh", "-c", script),
            cwd="/seen",
            bounds=bounds,
            stdout=tmp_path / "stdout",
            stderr=tmp_path / "stderr",
            env={"PATH": "/usr/bin:/bin", **(env or {})},
            mounts=mounts or (Mount(tmp_path / "seen", "/seen"),),
            channel=channel,
        )
        return await sandbox.run(launch, cancel or asyncio.Event())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
