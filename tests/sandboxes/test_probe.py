"""A probe reports the protections that a sandbox really gives, or why it cannot run a trial."""

from __future__ import annotations

import socket
import tempfile

import pytest

from loopty.domain.launch import Protection
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.cgroup import can_make_cgroups
from loopty.sandboxes.gaps import remedy
from loopty.sandboxes.landlock import order
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.sandboxes.probe import bind_same_port, probe
from loopty.sandboxes.unsafe import Unsafe

try:
    LANDLOCK = order.version()
except OSError:
    LANDLOCK = 0

TESTED = set(Protection) - {Protection.MEMORY}
CGROUP_GAPS = [] if can_make_cgroups() else [Protection.MEMORY]


@pytest.mark.parametrize("make", [Namespaces, Bubblewrap])
async def test_a_working_sandbox_has_a_report_without_a_problem(make):
    report = await probe(make())
    assert (report.name, report.ok, report.problem) == (make.name, True, "")
    assert [gap.protection for gap in report.gaps] == CGROUP_GAPS
    assert set(report.tried) == TESTED


@pytest.mark.skipif(LANDLOCK < order.SCOPES_VERSION, reason="no Landlock, or an old one")
async def test_landlock_gives_every_protection_that_it_claims():
    report = await probe(Landlock())
    assert (report.problem, [gap.protection for gap in report.gaps]) == ("", [Protection.CALLS, *CGROUP_GAPS])
    assert set(report.tried) == TESTED


class Boaster(Unsafe):
    """Claims to enforce everything and enforces nothing."""

    gaps = ()


async def test_a_sandbox_that_claims_too_much_is_caught():
    report = await probe(Boaster())
    assert report.ok
    gaps = {gap.protection for gap in report.gaps}
    # Unsafe finds its daemons by a mark, so none survives here.
    assert gaps == TESTED - {Protection.SURVIVORS}
    assert all(gap.words.startswith("observed: ") for gap in report.gaps)


async def test_a_long_path_to_temporary_files_changes_nothing(tmp_path, monkeypatch):
    before = await probe(Boaster())
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert await probe(Boaster()) == before


async def test_a_declared_gap_is_not_reported_twice():
    assert (await probe(Unsafe())).gaps == Unsafe.gaps


async def test_only_gaps_in_required_protections_count():
    report = await probe(Unsafe())
    required = {Protection.READ, Protection.FORKS}
    assert {gap.protection for gap in report.gaps_in(required)} == required
    assert report.gaps_in(()) == ()


async def test_the_report_of_a_missing_program_has_the_remedy(monkeypatch):
    monkeypatch.setenv("PATH", "")
    report = await probe(Bubblewrap())
    assert not report.ok
    assert "apt install bubblewrap" in report.problem


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


def test_a_port_that_is_taken_for_datagrams_is_skipped(monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        ports = iter((other.getsockname()[1], 0))
        real = socket.create_server
        monkeypatch.setattr(socket, "create_server", lambda _: real(("127.0.0.1", next(ports))))
        streams, datagrams = bind_same_port()
        with streams, datagrams:
            assert streams.getsockname() == datagrams.getsockname() != other.getsockname()
