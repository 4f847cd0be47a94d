"""Whether a descriptor can be read."""

import os
import resource

import pytest

from loopty.kit.sockets import is_readable


@pytest.fixture
def pipe():
    """A pipe whose reading end has a number above those that `select` can take."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 2_000:
        pytest.skip("this process may not open as many files")
    reader, writer = os.pipe()
    os.dup2(reader, 2_000)
    os.close(reader)
    yield 2_000, writer
    os.close(2_000)


def test_a_pipe_is_readable_when_something_is_in_it_or_its_other_end_is_closed(pipe):
    reader, writer = pipe
    assert not is_readable(reader, 0)
    assert not is_readable(reader, 0.001)
    os.write(writer, b"1")
    assert is_readable(reader, 0)
    os.read(reader, 1)
    assert not is_readable(reader, 0)
    os.close(writer)
    assert is_readable(reader, None)


def test_a_process_is_readable_when_it_is_dead():
    child = os.fork()
    if child == 0:
        os._exit(0)
    pidfd = os.pidfd_open(child)
    try:
        assert is_readable(pidfd, None)
    finally:
        os.close(pidfd)
        os.waitpid(child, 0)
