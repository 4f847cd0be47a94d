"""Processes that wait for more work: which work may follow which, and who gets it."""

from __future__ import annotations

import socket

import pytest

from loopty.resident.kept_processes import KeptProcesses, next_connection, peek_kind, work_kind
from loopty.resident.request import STOP, TOOL, VERB, VerbRequest


def request(kind: bytes = VERB, verb: bytes = b"new", *variables: bytes) -> VerbRequest:
    return VerbRequest(kind, b"/git", b"here", 0o022, [verb], list(variables))


@pytest.fixture
def ends():
    """The two ends of a connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_verbs_with_an_equal_environment_may_follow_each_other():
    kind = work_kind(request(VERB, b"new", b"A=1"))
    assert kind is not None
    assert kind == work_kind(request(VERB, b"run", b"A=1"))
    assert kind != work_kind(request(VERB, b"run", b"A=2"))


def test_a_process_ends_after_work_that_is_long_or_rare():
    assert work_kind(request(VERB, b"optimize")) is None
    assert work_kind(request(STOP)) is None
    assert work_kind(request(TOOL)) == TOOL


def test_a_request_stays_to_be_read_when_its_kind_is_known(ends):
    ours, theirs = ends
    body = request(TOOL).to_bytes()
    theirs.sendall(body)
    assert peek_kind(ours) == TOOL
    assert ours.recv(1 << 16) == body


def test_a_request_that_is_incomplete_or_wrong_has_no_kind(ends):
    ours, theirs = ends
    theirs.sendall(request(TOOL).to_bytes()[:-1])
    assert peek_kind(ours) is None
    theirs.sendall(b"x")
    assert peek_kind(ours) is None


def waiting(kept: KeptProcesses, number: int, kind: bytes) -> socket.socket:
    """The end of a process that has said that it waits."""
    control, theirs = socket.socketpair()
    kept.add(number, control, kind)
    theirs.sendall(b".")
    (key, _), *_ = kept.selector.select(0)
    assert key.data.says_it_rests()
    kept.rest(key.data)
    return theirs


def test_a_connection_goes_to_a_process_that_waits_for_its_kind(ends):
    ours, theirs = ends
    kept = KeptProcesses()
    with kept.selector, waiting(kept, 7, b"kind") as process:
        assert kept.hand_over(b"other", ours) is None
        assert kept.hand_over(None, ours) is None
        assert kept.hand_over(b"kind", ours) == 7
        assert kept.hand_over(b"kind", ours) is None  # it works now
        with next_connection(process) as got:
            got.sendall(b"hello")
        assert theirs.recv(5) == b"hello"
        kept.forget(7)
        assert next_connection(process) is None


def test_of_many_that_wait_the_oldest_ends():
    kept = KeptProcesses()
    with kept.selector:
        ends = [waiting(kept, number, b"kind") for number in range(5)]
        assert ends[0].recv(1) == b""
        for end in ends:
            end.close()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert kept.hand_over(b"kind", ours) is None  # all of them are gone
        for number in range(5):
            kept.forget(number)
