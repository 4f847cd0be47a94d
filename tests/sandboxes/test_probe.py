"""What a sandbox really keeps a trial from, and what to do when it cannot run one."""

from __future__ import annotations

import socket

import pytest

from loopty.domain.launch import Protection
from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.cgroup import can_make_cgroups
from loopty.sandboxes.landlock import Landlock
from loopty.sandboxes.landlock_supervisor import landlock_domain
from loopty.sandboxes.probe import bind_same_port, probe
from loopty.sandboxes.remedies import remedy
from loopty.sandboxes.unsafe import Unsafe

try:
    LANDLOCK = landlock_domain.version()
except OSError:
    LANDLOCK = 0

ALL_BUT_MEMORY = set(Protection) - {Protection.MEMORY}
WITHOUT_CGROUP = [] if can_make_cgroups() else [Protection.MEMORY]


async def test_a_working_sandbox_is_told():
    found = await probe(Bubblewrap())
    assert (found.name, found.ok, found.problem) == ("bubblewrap", True, "")
    assert [gap.protection for gap in found.gaps] == WITHOUT_CGROUP
    assert set(found.tried) == ALL_BUT_MEMORY


@pytest.mark.skipif(LANDLOCK < landlock_domain.SCOPES_VERSION, reason="no Landlock, or an old one")
async def test_landlock_holds_all_that_it_claims():
    found = await probe(Landlock())
    assert (found.problem, [gap.protection for gap in found.gaps]) == ("", [Protection.CALLS, *WITHOUT_CGROUP])
    assert set(found.tried) == ALL_BUT_MEMORY


class Boaster(Unsafe):
    """Claims to enforce everything and enforces nothing."""

    gaps = ()


async def test_a_sandbox_that_claims_too_much_is_caught():
    found = await probe(Boaster())
    assert found.ok
    caught = {gap.protection for gap in found.gaps}
    # What Unsafe leaves is hunted by its mark, so no daemon survives it here.
    assert caught == ALL_BUT_MEMORY - {Protection.SURVIVORS}
    assert all(gap.words.startswith("tried: ") for gap in found.gaps)


async def test_what_a_sandbox_admits_is_not_said_twice():
    assert (await probe(Unsafe())).gaps == Unsafe.gaps


async def test_only_gaps_in_what_is_required_are_lacking():
    found = await probe(Unsafe())
    required = {Protection.READ, Protection.FORKS}
    assert {gap.protection for gap in found.gaps_in(required)} == required
    assert found.gaps_in(()) == ()


async def test_a_missing_program_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setenv("PATH", "")
    found = await probe(Bubblewrap())
    assert not found.ok
    assert "apt install bubblewrap" in found.problem


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Unknown option --disable-userns", "too old"),
        ("No permissions to create new namespace, likely because", "user namespaces"),
        ("setting up uid map: Permission denied", "user namespaces"),
        ("Can't find source path /absent: No such file or directory", ""),
    ],
)
def test_a_message_has_its_remedy(message, advice):
    assert advice in remedy(message)
    assert bool(advice) == bool(remedy(message))


def test_a_port_that_datagrams_already_have_is_not_waited_for(monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        ports = iter((other.getsockname()[1], 0))
        real = socket.create_server
        monkeypatch.setattr(socket, "create_server", lambda _: real(("127.0.0.1", next(ports))))
        streams, datagrams = bind_same_port()
        with streams, datagrams:
            assert streams.getsockname() == datagrams.getsockname() != other.getsockname()
