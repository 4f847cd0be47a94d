"""Every attack gets through where its protection is missing, which proves that the protection holds it elsewhere.

Most get through when there is no sandbox at all. For the others bubblewrap loses one protection, or careless code
replaces loopty's careful reading. Only tests that need root run as root, and the attacks are small enough to get
through without harm.
"""

from __future__ import annotations

import asyncio
import csv
import itertools
import os
import pty
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from loopty.domain.launch import Bounds, Exit, Launch, Sandbox
from loopty.features.attacks import leftovers, runner
from loopty.features.attacks.arena import Arena, paths_below
from loopty.features.attacks.attack import Attack
from loopty.features.attacks.runner import ATTACKS, AttackStanding, run_attacks
from loopty.kit.process import trial_owner
from loopty.kit.records import replace
from loopty.sandboxes import cgroup, gaps, resource_usage, trial_view
from loopty.sandboxes.bubblewrap import sandbox
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.cgroup import Cgroup
from loopty.sandboxes.supervise import SignalFreezer

HOLD_SECONDS = 1.0
ENOUGH_BYTES = 8 << 20
TERMINAL = "reach the terminal of loopty"
NUMBERS = itertools.count()
BY_NAME = {attack.name: attack for attack in ATTACKS}

WeakenedSandbox = Callable[[pytest.MonkeyPatch], Sandbox]


class HigherBounds:
    """Bubblewrap with higher bounds than those that the attack should be held to."""

    name = "higher bounds"
    gaps = ()

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        bounds = Bounds(seconds=30, memory_mb=600, processes=128, output_mb=64, disk_mb=300)
        return await Bubblewrap().run(replace(launch, bounds=bounds), cancel)


def with_higher_bounds(_: object) -> Sandbox:
    return HigherBounds()


def with_a_deeper_walk(patch: pytest.MonkeyPatch) -> Sandbox:
    patch.setattr(resource_usage, "_MAX_DEPTH", 900)
    return HigherBounds()


def without_measuring(*names: str) -> WeakenedSandbox:
    """Bubblewrap with a watcher that skips some measurements."""

    def weakened(patch: pytest.MonkeyPatch) -> Sandbox:
        for name in names:
            patch.setattr(resource_usage, name, lambda *_: iter(()))
        return Bubblewrap()

    return weakened


def without_a_cgroup(patch: pytest.MonkeyPatch) -> Sandbox:
    patch.setattr(gaps, "can_make_cgroups", lambda: True)
    patch.setattr(sandbox.Cgroup, "create", lambda _: None)
    return Bubblewrap()


def without(*options: str) -> Bubblewrap:
    """Bubblewrap without some of its usual options."""
    sandbox = Bubblewrap()
    sandbox._system = tuple(option for option in sandbox._system if option not in options)
    return sandbox


def with_more(*options: str) -> Bubblewrap:
    sandbox = Bubblewrap()
    sandbox._system = (*sandbox._system, *options)
    return sandbox


def with_the_host_in_view(patch: pytest.MonkeyPatch) -> Sandbox:
    # Not in /tmp, because every trial has its own.
    patch.setattr("tempfile.tempdir", "/var/tmp")
    return with_more("--bind", "/var/tmp", "/var/tmp")


def with_the_environment(patch: pytest.MonkeyPatch) -> Sandbox:
    spawn_with(patch, lambda words: {**words, "env": dict(os.environ)})
    return without("--clearenv")


def with_the_ledger_open(patch: pytest.MonkeyPatch) -> Sandbox:
    def with_ledger(words: dict) -> dict:
        descriptors = {
            int(path.name): path.readlink() for path in Path("/proc/self/fd").iterdir() if path.exists()
        }
        ledgers = [number for number, target in descriptors.items() if target.name == "ledger.sqlite"]
        return {**words, "pass_fds": (*words["pass_fds"], *ledgers)}

    spawn_with(patch, with_ledger)
    return Bubblewrap()


def spawn_with(patch: pytest.MonkeyPatch, change: Callable[[dict], dict]) -> None:
    def popen(command: list[str], **words: object) -> subprocess.Popen:
        return subprocess.Popen(command, **change(words))

    patch.setattr(sandbox, "subprocess", types.SimpleNamespace(**{**vars(subprocess), "Popen": popen}))


def with_mounts_anywhere(patch: pytest.MonkeyPatch) -> Sandbox:
    patch.setattr(trial_view, "refuse_mount_points_that_a_trial_could_move", lambda _: None)
    return Bubblewrap()


def with_a_writable_root(patch: pytest.MonkeyPatch) -> Sandbox:
    real = sandbox.trial_options

    def options(launch: Launch, sources: list[int]) -> list[str]:
        words = list(real(launch, sources))
        while "--remount-ro" in words:
            place = words.index("--remount-ro")
            del words[place : place + 2]
        return words

    patch.setattr(sandbox, "trial_options", options)
    return Bubblewrap()


def with_a_stand_in_for_the_kernel(_: object) -> Sandbox:
    # Only root can write the real settings, and no test writes them.
    settings = "/proc/sys/kernel"
    return with_more("--tmpfs", settings, "--symlink", "/dev/null", f"{settings}/core_pattern")


def with_freezers_that_stop_nothing(patch: pytest.MonkeyPatch) -> Sandbox:
    for freezer in (Cgroup, SignalFreezer):
        patch.setattr(freezer, "freeze", lambda _: None)
    return Bubblewrap()


def with_the_owner_in_the_names_of_groups(patch: pytest.MonkeyPatch) -> Sandbox:
    if cgroup._parent() is None:
        pytest.skip("this user cannot create cgroups here")
    patch.setattr(cgroup, "_new_name", lambda: f"loopty-{os.getpid()}-{next(NUMBERS)}")
    sandbox = Bubblewrap()
    # All namespaces but that of cgroups: in it, the name is hidden if bubblewrap was in the group early enough.
    others = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    sandbox._system = (*others, *(option for option in sandbox._system if option != "--unshare-all"))
    return sandbox


WEAKENED: dict[str, WeakenedSandbox] = {
    "spin while the benchmark measures something else": with_freezers_that_stop_nothing,
    "spin in processes that wake each other": with_freezers_that_stop_nothing,
    "find the process id of loopty": with_the_owner_in_the_names_of_groups,
    "write through /proc/1/root": with_the_host_in_view,
    "write to a descriptor that loopty left open": with_the_ledger_open,
    "plant a link where a later mount will be": with_mounts_anywhere,
    "move the directory above a read-only mount and recreate it": with_mounts_anywhere,
    "read the environment": with_the_environment,
    "read the environment of process 1": with_the_environment,
    "open the kernel's settings for writing": with_a_stand_in_for_the_kernel,
    "spread memory over processes": with_higher_bounds,
    "fill the disk with many files": with_higher_bounds,
    "fill the disk with empty files": with_higher_bounds,
    "fill the disk with empty directories": with_higher_bounds,
    "fill the disk with files that have no name": with_higher_bounds,
    "fill the disk in a folder that nobody may read": with_higher_bounds,
    "fill the disk from a process that hides its files": without_measuring("_invisible_files"),
    "fill the disk with files that are only mapped": without_measuring("_files_behind_mappings"),
    "fill the disk with files in transit between processes": without_measuring("_invisible_files"),
    "hide memory in a shared mapping": without_a_cgroup,
    "hide memory in the buffers of sockets": without_a_cgroup,
    "fill the disk in folders too deep to walk": with_a_deeper_walk,
    "fill /dev and /": with_a_writable_root,
    "flood the output": with_higher_bounds,
    "flood the errors": with_higher_bounds,
}


@pytest.mark.parametrize("name", WEAKENED)
async def test_an_attack_gets_through_when_one_protection_is_missing(name, monkeypatch):
    sandbox = WEAKENED[name](monkeypatch)
    await assert_it_gets_through(sandbox, BY_NAME[name])


async def assert_it_gets_through(sandbox: Sandbox, attack: Attack) -> None:
    (result,) = await run_attacks(sandbox, [attack], HOLD_SECONDS)
    assert result.standing is AttackStanding.BROKEN, f"{result.standing}: {result.detail}"


def read_carelessly(arena: Arena) -> None:
    for name in ("result.json", "traces/task_1.json"):
        with (arena.outbox / name).open("rb") as file:
            content = file.read(ENOUGH_BYTES)
        if len(content) == ENOUGH_BYTES:
            raise RuntimeError("the file has no end")
        (arena.harvest_folder / Path(name).name).write_bytes(content)


def encode_names(arena: Arena) -> None:
    for path in paths_below(arena.outbox):
        str(path).encode()


def remove_carelessly(arena: Arena) -> None:
    shutil.rmtree(arena.outbox)


def remove_as_owner(arena: Arena) -> None:
    # Root may do everything.
    uid, gid = trial_owner() or (None, None)
    command = ["rm", "-r", str(arena.outbox / "closed")]
    subprocess.run(command, user=uid, group=gid, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_git_status(arena: Arena) -> None:
    arena.draft.parent.mkdir()
    (arena.outbox / "draft").rename(arena.draft)
    for path in (arena.draft, *paths_below(arena.draft)):
        os.chown(path, os.geteuid(), os.getegid())
    subprocess.run(["git", "status"], cwd=arena.draft, capture_output=True, check=False)


def read_all_rows(arena: Arena) -> None:
    def read(_: Arena) -> None:
        with (arena.outbox / "metrics.csv").open() as file:
            list(csv.reader(file))

    leftovers.limit_memory(read, arena)


def follow_links(arena: Arena) -> None:
    top = arena.outbox / "clone/.loopty"
    for name in ("drafts/1/file", "nodes/1/result.json"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("forged")


CARELESS: dict[str, Callable[[Arena], None]] = {
    "leave metrics that take much memory to read": read_all_rows,
    "bring a link as loopty's folder": follow_links,
    "bring a link as the folder of a node": follow_links,
    "bring a link as a file of a node": follow_links,
    "bring a link as the folder of drafts": follow_links,
    "leave links to a secret": read_carelessly,
    "leave links to an endless file": read_carelessly,
    "leave pipes that nobody writes to": read_carelessly,
    "leave devices": read_carelessly,
    "leave sockets": read_carelessly,
    "leave directories where files are due": read_carelessly,
    "leave folders that are links": read_carelessly,
    "leave file names with special characters": encode_names,
    "leave folders too deep to remove": remove_carelessly,
    "leave folders that forbid their own removal": remove_as_owner,
    "leave a .git that starts programs": run_git_status,
}


@pytest.mark.parametrize("name", CARELESS)
async def test_an_attack_gets_through_to_careless_code(name, monkeypatch):
    monkeypatch.setattr(runner, "_LIMIT_SECONDS", 5.0)
    await assert_it_gets_through(Bubblewrap(), replace(BY_NAME[name], after=CARELESS[name]))


# Only root could do these, and no attack runs as root. So the test itself does what the attack would do, and shows
# that the arena notices.
AS_ROOT: dict[str, Callable[[Arena], None]] = {
    "make a device": lambda arena: os.mknod(arena.outbox / "device", 0o020666, os.makedev(1, 3)),
    "write files as root": lambda arena: (arena.outbox / "of root").touch(),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can do it")
@pytest.mark.parametrize("name", AS_ROOT)
async def test_the_arena_would_notice_an_attack_by_root(name):
    await assert_it_gets_through(Bubblewrap(), replace(BY_NAME[name], after=AS_ROOT[name]))


AT_A_TERMINAL = """
import asyncio, fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from loopty.features.attacks.runner import run_attacks
from loopty.features.attacks.runner import ATTACKS
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap

sandbox = Bubblewrap()
sandbox._system = tuple(option for option in sandbox._system if option not in sys.argv[1:])
(attack,) = (attack for attack in ATTACKS if attack.name == "reach the terminal of loopty")
(result,) = asyncio.run(run_attacks(sandbox, [attack]))
print(result.standing)
"""


@pytest.mark.parametrize(
    ("missing", "standing"), [((), AttackStanding.HELD), (("--new-session",), AttackStanding.BROKEN)]
)
def test_a_session_of_its_own_keeps_a_trial_from_the_terminal_of_loopty(missing, standing):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", AT_A_TERMINAL, *missing]
    done = subprocess.run(command, stdin=theirs, stdout=subprocess.PIPE, start_new_session=True, check=True)
    os.close(ours)
    os.close(theirs)
    assert done.stdout.decode().strip() == standing


def test_all_other_attacks_get_through_without_a_sandbox(as_ordinary_user):
    rest = [name for name in BY_NAME if name not in {*WEAKENED, *CARELESS, *AS_ROOT, TERMINAL}]
    results = as_ordinary_user("unsafe", HOLD_SECONDS, rest)
    through = (AttackStanding.GAP, AttackStanding.BROKEN, AttackStanding.INAPPLICABLE)
    assert {name: result.detail for name, result in results.items() if result.standing not in through} == {}
    assert results.keys() == set(rest)
