"""Free blocks in pages with other objects are used up before there are copies of a warm process."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
from loopty.sandboxes.namespace_launcher.fresh_pools import use_up_free_blocks
sizes = range(0, 450, 15)
before = [bytes(size) for size in sizes for _ in range(2000)]
pages = {id(one) >> 12 for one in before}
del before[::3]
made = [] if SKIPPED else use_up_free_blocks()
print(sum(id(bytes(size)) >> 12 in pages for size in sizes))
print(sum(map(len, made)))
"""


def _run(*, is_skipped: bool = False, allocator: str = "default") -> tuple[int, int]:
    """How many of 30 new objects are in old pages, and how many objects were made to fill them."""
    text, env = f"SKIPPED = {is_skipped}{SCRIPT}", {**os.environ, "PYTHONMALLOC": allocator}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=env)
    shared, count = map(int, done.stdout.split())
    return shared, count


def test_new_objects_are_in_pages_without_old_ones():
    assert _run(is_skipped=True)[0] > 20
    shared, count = _run()
    assert shared <= 3  # the empty text is always the same object
    assert count < 60_000


@pytest.mark.parametrize("allocator", ["malloc", "debug"])
def test_an_interpreter_with_another_allocator_keeps_nothing(allocator):
    assert _run(allocator=allocator)[1] == 0
