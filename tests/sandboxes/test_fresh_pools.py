"""Free blocks in pages with other objects are used up before there are copies of a warm process."""

import subprocess
import sys

SCRIPT = """
from loopty.sandboxes.namespace_launcher.fresh_pools import use_up_free_blocks
sizes = range(0, 450, 15)
before = [bytes(size) for size in sizes for _ in range(2000)]
pages = {id(one) >> 12 for one in before}
del before[::3]
made = [] if SKIPPED else use_up_free_blocks()
print(sum(id(bytes(size)) >> 12 in pages for size in sizes))
print(sum(map(len, (one for one in made if type(one) is bytes))))
"""


def _run(*, is_skipped: bool) -> tuple[int, int]:
    text = f"SKIPPED = {is_skipped}{SCRIPT}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    shared, size = map(int, done.stdout.split())
    return shared, size


def test_new_objects_are_in_pages_without_old_ones():
    assert _run(is_skipped=True)[0] > 20
    shared, size = _run(is_skipped=False)
    assert shared == 1  # the empty text is always the same object
    assert size < 64 << 20
