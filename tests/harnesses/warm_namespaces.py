"""Namespaces in which every command starts as a copy of a warm process, for attacks and conformance suites."""

from __future__ import annotations

import asyncio

from loopty.domain.launch import Exit, Launch, SandboxError, WarmStart
from loopty.kit.records import replace
from loopty.sandboxes.namespaces.sandbox import Namespaces

_BECOME = """
import os, sys
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except FileNotFoundError:
    print(f"cannot start {sys.argv[1]}: it is not found", file=sys.stderr)
    sys.exit(127)
"""


class WarmNamespaces(Namespaces):
    """What a copy of a warm process can do must be what any other command can do."""

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run the launch as a copy: a Python text as it is, and any other command as a program that it becomes.

        Raises SandboxError when no copy can run it.
        """
        if launch.channel is not None or launch.network or launch.devices:
            return await super().run(launch, cancel)
        return await super().run(replace(launch, warm=_warm_start(launch)), cancel)


def _warm_start(launch: Launch) -> WarmStart:
    is_python = "-c" in launch.argv and "python" in launch.argv[0]
    split = launch.argv.index("-c") if is_python else 0
    return WarmStart(
        python=launch.argv[:split] or ("python3",),
        arguments=launch.argv[split:] if is_python else ("-c", _BECOME, *launch.argv),
        imports=(),
        # Toolchains are shown at their own paths.
        mounts=tuple(mount for mount in launch.mounts if str(mount.source) == mount.target and not mount.writable),
        env=tuple((name, value) for name, value in launch.env.items() if name == "PATH"),
        names=frozenset(),
        folders=(),
        on_cold=_refuse,
    )


def _refuse(reason: str) -> None:
    raise SandboxError(f"no copy of a warm process could run a command: {reason}")
