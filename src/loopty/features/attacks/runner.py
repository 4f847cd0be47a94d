"""Run all attacks on a sandbox and report for each whether it was held."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from enum import StrEnum

from loopty.domain.launch import Exit, Freezer, Launch, Sandbox, SandboxError
from loopty.features.attacks import exhaustion, files, leftovers, processes, system_calls
from loopty.features.attacks.arena import Arena, regular_file_content
from loopty.features.attacks.attack import Attack
from loopty.kit.records import Record, replace
from loopty.sandboxes.toolchain import Toolchain, user_toolchain

ATTACKS: tuple[Attack, ...] = (
    *files.OUTSIDE_WRITES,
    *files.TWO_STEPS,
    *files.SECRETS,
    *processes.HOST_PROCESSES,
    *processes.NETWORK,
    *system_calls.ATTACKS,
    *processes.SURVIVORS,
    *exhaustion.ATTACKS,
    *processes.BETWEEN_CALLS,
    *leftovers.HOSTILE_LEFTOVERS,
    *leftovers.CLONE_LINKS,
)


_AT_ONCE = 2
_LIMIT_SECONDS = 60.0
# Long enough to notice an excess even on a busy machine; only an attack that gets through takes this long.
_HOLD_SECONDS = 8.0
_READY_PAUSE = 0.02
_NO_FREEZER = "processes cannot be stopped here, so the integrity of an isolated benchmark is weak"


class AttackStanding(StrEnum):
    """How an attack turned out."""

    HELD = "held"
    BROKEN = "BROKEN"
    """It got through."""
    GAP = "gap"
    """It got through, and the back end declares that it does not protect from this."""
    INAPPLICABLE = "not applicable"
    UNTRIED = "UNTRIED"
    """It never made its attempt, which proves nothing."""


class AttackResult(Record):
    """The result of one attack: what it achieved, what refused it, or why it was not tried."""

    attack: Attack
    standing: AttackStanding
    detail: str
    seconds: float

    @property
    def is_held(self) -> bool:
        return self.standing is AttackStanding.HELD

    @property
    def is_alarming(self) -> bool:
        """Say whether the back end fails to give a protection that it claims, or could not be tested."""
        return self.standing in (AttackStanding.BROKEN, AttackStanding.UNTRIED)


def ignore_result(_: AttackResult) -> None:
    """Do nothing with a result."""


async def run_attacks(
    sandbox: Sandbox,
    attacks: Iterable[Attack] = ATTACKS,
    hold_seconds: float = _HOLD_SECONDS,
    on_result: Callable[[AttackResult], None] = ignore_result,
) -> list[AttackResult]:
    """Run each attack in an arena of its own, which is removed; `on_result` gets each result as it comes."""
    tools = await asyncio.to_thread(user_toolchain)
    slots = asyncio.Semaphore(_AT_ONCE)

    async def try_attack(attack: Attack) -> AttackResult:
        async with slots:
            result = await _run_attack(sandbox, attack, tools, hold_seconds)
        on_result(result)
        return result

    return list(await asyncio.gather(*map(try_attack, attacks)))


async def _run_attack(sandbox: Sandbox, attack: Attack, tools: Toolchain, hold_seconds: float) -> AttackResult:
    if reason := attack.obstacle():
        return AttackResult(attack, AttackStanding.INAPPLICABLE, reason, 0.0)
    started = time.monotonic()
    arena = Arena(tools, hold_seconds)
    try:
        standing, detail = await _attempt(sandbox, attack, arena)
    finally:
        arena.close()
    if standing is AttackStanding.BROKEN and any(gap.protection is attack.protection for gap in sandbox.gaps):
        standing = AttackStanding.GAP
    return AttackResult(attack, standing, detail, time.monotonic() - started)


async def _attempt(sandbox: Sandbox, attack: Attack, arena: Arena) -> tuple[AttackStanding, str]:
    launch = arena.launch(attack.script, attack.bounds)
    try:
        async with asyncio.timeout(_LIMIT_SECONDS):
            if attack.meanwhile is None:
                exit_ = await sandbox.run(launch, asyncio.Event())
            else:
                exit_, harm = await _run_and_act(sandbox, launch, attack.meanwhile, arena)
                if harm is None:
                    return AttackStanding.INAPPLICABLE, _NO_FREEZER
                if harm:
                    return AttackStanding.BROKEN, harm
            if fault := _fault(exit_, launch):
                return AttackStanding.UNTRIED, fault
            answer = _answer(exit_, launch) if attack.meanwhile is None else "nothing of it ran meanwhile"
            if attack.second is not None:
                answer = await _run_second_launch(sandbox, attack, arena)
            if attack.after is not None and (failure := await _run_in_thread(attack.after, arena)):
                return AttackStanding.BROKEN, failure
    except TimeoutError:
        return AttackStanding.BROKEN, f"loopty was blocked for {_LIMIT_SECONDS:g} s"
    except SandboxError as error:
        return AttackStanding.UNTRIED, str(error)
    harm = arena.harm(attack.bounds)
    return (AttackStanding.BROKEN, harm) if harm else (AttackStanding.HELD, answer)


async def _run_and_act(
    sandbox: Sandbox, launch: Launch, action: Callable[[Freezer], str], arena: Arena
) -> tuple[Exit, str | None]:
    """Run the script, act when it is ready, and end it. What it achieved is None where nothing can stop it."""
    freezers: list[Freezer] = []
    cancel, harm = asyncio.Event(), ""
    running = asyncio.create_task(sandbox.run(replace(launch, on_start=freezers.append), cancel))
    try:
        while not (arena.is_ready() or running.done()):  # noqa: ASYNC110 - a file tells, in another process
            await asyncio.sleep(_READY_PAUSE)
        if not running.done():
            harm = await asyncio.to_thread(action, freezers[0])
    except (OSError, IndexError):
        cancel.set()
        return await running, None
    finally:
        cancel.set()
    return await running, harm


async def _run_second_launch(sandbox: Sandbox, attack: Attack, arena: Arena) -> str:
    assert attack.second is not None
    launch = arena.launch(attack.second.script, attack.bounds, attack.second.mount(arena))
    try:
        return _answer(await sandbox.run(launch, asyncio.Event()), launch)
    except SandboxError as error:
        return str(error)


async def _run_in_thread(action: Callable[[Arena], None], arena: Arena) -> str:
    """Run an action in a daemon thread, because it may hang for ever; returns how it failed, or an empty text."""
    loop = asyncio.get_running_loop()
    failure: asyncio.Future[str] = loop.create_future()

    def act() -> None:
        words = ""
        try:
            action(arena)
        except Exception as error:  # noqa: BLE001 - the attack caused it, whatever it is
            words = f"loopty failed: {error!r}"
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for the answer any more
            loop.call_soon_threadsafe(report, words)

    def report(words: str) -> None:
        if not failure.done():
            failure.set_result(words)

    threading.Thread(target=act, daemon=True).start()
    return await failure


def _fault(exit_: Exit, launch: Launch) -> str:
    """Say why the script never made its attempt, or return an empty text."""
    if not (regular_file_content(launch.stdout) or b"").startswith(b"begun"):
        return f"python3 did not start: {_last_line(launch)}"
    failed = exit_.stop is None and 0 < exit_.code < 128
    return f"the script failed: {_last_line(launch)}" if failed else ""


def _answer(exit_: Exit, launch: Launch) -> str:
    """Say how the sandbox answered the attack."""
    if exit_.stop is not None:
        return f"stopped at its bound: {exit_.stop}"
    lines = (regular_file_content(launch.stdout) or b"").decode(errors="replace").splitlines()
    refusals = [line.removeprefix("refused: ") for line in lines if line.startswith("refused: ")]
    return refusals[0] if refusals else "it had no effect"


def _last_line(launch: Launch) -> str:
    lines = (regular_file_content(launch.stderr) or b"").decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed no error"
