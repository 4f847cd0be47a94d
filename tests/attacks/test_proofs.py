"""Every attack gets through where its defence is missing: that it is held elsewhere means something.

Most get through when there is no sandbox at all. For the others one defence is taken away from bubblewrap, or
loopty's careful reading gives way to a careless one. Nothing runs as root that is not root's own test, and the
attacks are small enough to get through without harm.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pty
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from loopty.attacks import runner
from loopty.attacks.arena import Arena
from loopty.attacks.attack import Attack
from loopty.attacks.folder_state import paths_below
from loopty.attacks.runner import AttackStanding, run_attacks
from loopty.attacks.suite import ATTACKS
from loopty.domain.launch import Bounds, Exit, Launch, Sandbox
from loopty.sandboxes import bubblewrap, bubblewrap_options, resource_usage
from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.trial_user import trial_owner

HOLD_SECONDS = 1.0
ENOUGH_BYTES = 8 << 20
TERMINAL = "reach the terminal of loopty"
BY_NAME = {attack.name: attack for attack in ATTACKS}

Weakened = Callable[[pytest.MonkeyPatch], Sandbox]


class Lifted:
    """Bubblewrap with higher bounds than those that the attack is judged by."""

    name = "lifted"
    gaps = ()

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        bounds = Bounds(seconds=30, memory_mb=600, processes=128, output_mb=64, disk_mb=300)
        return await Bubblewrap().run(dataclasses.replace(launch, bounds=bounds), cancel)


def lifted(_: object) -> Sandbox:
    return Lifted()


def walking_deeper(patch: pytest.MonkeyPatch) -> Sandbox:
    patch.setattr(resource_usage, "_DEEPEST", 900)
    return Lifted()


def blind_to(*names: str) -> Weakened:
    """Bubblewrap with a watcher that does not look everywhere."""

    def weakened(patch: pytest.MonkeyPatch) -> Sandbox:
        for name in names:
            patch.setattr(resource_usage, name, lambda *_: iter(()))
        return Bubblewrap()

    return weakened


def without_a_cgroup(patch: pytest.MonkeyPatch) -> Sandbox:
    patch.setattr(bubblewrap, "cgroups_can_be_made", lambda: True)
    patch.setattr(bubblewrap.Cgroup, "made", lambda _: None)
    return Bubblewrap()


def without(*options: str) -> Bubblewrap:
    """Bubblewrap without some of what every trial is started with."""
    sandbox = Bubblewrap()
    sandbox._system = tuple(option for option in sandbox._system if option not in options)
    return sandbox


def with_more(*options: str) -> Bubblewrap:
    sandbox = Bubblewrap()
    sandbox._system = (*sandbox._system, *options)
    return sandbox


def with_the_host_in_view(patch: pytest.MonkeyPatch) -> Sandbox:
    # Not in /tmp, which every trial has for itself.
    patch.setattr("tempfile.tempdir", "/var/tmp")
    return with_more("--bind", "/var/tmp", "/var/tmp")


def with_the_environment(patch: pytest.MonkeyPatch) -> Sandbox:
    spawn_with(patch, lambda words: {**words, "env": dict(os.environ)})
    return without("--clearenv")


def with_the_ledger_open(patch: pytest.MonkeyPatch) -> Sandbox:
    def passed(words: dict) -> dict:
        descriptors = {
            int(path.name): path.readlink() for path in Path("/proc/self/fd").iterdir() if path.exists()
        }
        ledgers = [number for number, target in descriptors.items() if target.name == "ledger.sqlite"]
        return {**words, "pass_fds": (*words["pass_fds"], *ledgers)}

    spawn_with(patch, passed)
    return Bubblewrap()


def spawn_with(patch: pytest.MonkeyPatch, change: Callable[[dict], dict]) -> None:
    def popen(command: list[str], **words: object) -> subprocess.Popen:
        return subprocess.Popen(command, **change(words))

    patch.setattr(bubblewrap, "subprocess", types.SimpleNamespace(**{**vars(subprocess), "Popen": popen}))


def with_mounts_anywhere(patch: pytest.MonkeyPatch) -> Sandbox:
    patch.setattr(bubblewrap_options, "refuse_mount_points_that_a_trial_could_move", lambda _: None)
    return Bubblewrap()


def with_a_writable_root(patch: pytest.MonkeyPatch) -> Sandbox:
    real = bubblewrap_options.trial_options

    def options(launch: Launch, sources: list[int]) -> list[str]:
        words = list(real(launch, sources))
        while "--remount-ro" in words:
            place = words.index("--remount-ro")
            del words[place : place + 2]
        return words

    patch.setattr(bubblewrap_options, "trial_options", options)
    return Bubblewrap()


def with_a_stand_in_for_the_kernel(_: object) -> Sandbox:
    # The real settings are writable for root alone, and no test writes them.
    settings = "/proc/sys/kernel"
    return with_more("--tmpfs", settings, "--symlink", "/dev/null", f"{settings}/core_pattern")


WEAKENED: dict[str, Weakened] = {
    "write through /proc/1/root": with_the_host_in_view,
    "write to a descriptor that loopty left open": with_the_ledger_open,
    "plant a link where a later mount will be": with_mounts_anywhere,
    "move the directory above a read-only place and fill it anew": with_mounts_anywhere,
    "read the environment": with_the_environment,
    "read the environment of process 1": with_the_environment,
    "open the kernel's settings for writing": with_a_stand_in_for_the_kernel,
    "spread memory over processes": lifted,
    "fill the disk with many files": lifted,
    "fill the disk with empty files": lifted,
    "fill the disk with empty directories": lifted,
    "fill the disk with files that have no name": lifted,
    "fill the disk where nobody may look": lifted,
    "fill the disk out of the sight of others": blind_to("_held"),
    "fill the disk with files that are only mapped": blind_to("_mapped"),
    "fill the disk with files on their way between processes": blind_to("_held"),
    "hide memory in a shared mapping": without_a_cgroup,
    "hide memory in the buffers of sockets": without_a_cgroup,
    "fill the disk deeper than anybody walks": walking_deeper,
    "fill /dev and /": with_a_writable_root,
    "flood the output": lifted,
    "flood the errors": lifted,
}


@pytest.mark.parametrize("name", WEAKENED)
async def test_it_gets_through_when_one_defence_is_missing(name, monkeypatch):
    sandbox = WEAKENED[name](monkeypatch)
    await got_through(sandbox, BY_NAME[name])


async def got_through(sandbox: Sandbox, attack: Attack) -> None:
    (result,) = await run_attacks(sandbox, [attack], HOLD_SECONDS)
    assert result.standing is AttackStanding.BROKEN, f"{result.standing}: {result.detail}"


def reading(arena: Arena) -> None:
    for name in ("result.json", "traces/task_1.json"):
        with (arena.outbox / name).open("rb") as file:
            content = file.read(ENOUGH_BYTES)
        if len(content) == ENOUGH_BYTES:
            raise RuntimeError("there is no end to it")
        (arena.harvest_folder / Path(name).name).write_bytes(content)


def naming(arena: Arena) -> None:
    for path in paths_below(arena.outbox):
        str(path).encode()


def removing(arena: Arena) -> None:
    shutil.rmtree(arena.outbox)


def removing_as_its_owner(arena: Arena) -> None:
    # Root is not kept from anything.
    uid, gid = trial_owner() or (None, None)
    command = ["rm", "-r", str(arena.outbox / "closed")]
    subprocess.run(command, user=uid, group=gid, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def asking_git(arena: Arena) -> None:
    arena.draft.parent.mkdir()
    (arena.outbox / "draft").rename(arena.draft)
    for path in (arena.draft, *paths_below(arena.draft)):
        os.chown(path, os.geteuid(), os.getegid())
    subprocess.run(["git", "status"], cwd=arena.draft, capture_output=True, check=False)


CARELESS: dict[str, Callable[[Arena], None]] = {
    "leave links to a secret": reading,
    "leave links to an endless file": reading,
    "leave pipes that nobody writes to": reading,
    "leave devices": reading,
    "leave sockets": reading,
    "leave directories where files are due": reading,
    "leave folders that are links": reading,
    "leave names that are no names": naming,
    "leave folders too deep to remove": removing,
    "leave folders that forbid their own removal": removing_as_its_owner,
    "leave a .git that starts programs": asking_git,
}


@pytest.mark.parametrize("name", CARELESS)
async def test_it_gets_through_to_the_careless(name, monkeypatch):
    monkeypatch.setattr(runner, "_LIMIT_SECONDS", 5.0)
    await got_through(Bubblewrap(), dataclasses.replace(BY_NAME[name], after=CARELESS[name]))


# Only root could do these, and nothing hostile is run as root. So it is shown that they would be seen: the test
# itself does what the attack would do.
SEEN: dict[str, Callable[[Arena], None]] = {
    "make a device": lambda arena: os.mknod(arena.outbox / "device", 0o020666, os.makedev(1, 3)),
    "write files as root": lambda arena: (arena.outbox / "of root").touch(),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can do it")
@pytest.mark.parametrize("name", SEEN)
async def test_it_would_be_seen(name):
    await got_through(Bubblewrap(), dataclasses.replace(BY_NAME[name], after=SEEN[name]))


AT_A_TERMINAL = """
import asyncio, fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from loopty.attacks.runner import run_attacks
from loopty.attacks.suite import ATTACKS
from loopty.sandboxes.bubblewrap import Bubblewrap

sandbox = Bubblewrap()
sandbox._system = tuple(option for option in sandbox._system if option not in sys.argv[1:])
(attack,) = (attack for attack in ATTACKS if attack.name == "reach the terminal of loopty")
(result,) = asyncio.run(run_attacks(sandbox, [attack]))
print(result.standing)
"""


@pytest.mark.parametrize(
    ("missing", "standing"), [((), AttackStanding.HELD), (("--new-session",), AttackStanding.BROKEN)]
)
def test_the_terminal_of_loopty_is_out_of_reach_by_a_session_of_its_own(missing, standing):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", AT_A_TERMINAL, *missing]
    done = subprocess.run(command, stdin=theirs, stdout=subprocess.PIPE, start_new_session=True, check=True)
    os.close(ours)
    os.close(theirs)
    assert done.stdout.decode().strip() == standing


def test_the_others_get_through_without_a_sandbox(as_ordinary_user):
    rest = [name for name in BY_NAME if name not in {*WEAKENED, *CARELESS, *SEEN, TERMINAL}]
    told = as_ordinary_user("unsafe", HOLD_SECONDS, rest)
    through = (AttackStanding.GAP, AttackStanding.BROKEN, AttackStanding.INAPPLICABLE)
    assert {name: of.detail for name, of in told.items() if of.standing not in through} == {}
    assert told.keys() == set(rest)
