"""A task with a device: it needs the user's yes, its trials take turns, and the fingerprint names it."""

import fcntl
import os
import secrets
import stat
import subprocess
from pathlib import Path

import pytest

from loopty.executors.local_slots import lock_path
from loopty.record.trials import Cohorts

TASK = """
width = 2
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
result = "stdout"
devices = [{device}]
share_devices = {shared}
[access]
write = ["src/**"]
[pools]
attempts = 3
[proposer]
kind = "mutate"
"""


@pytest.fixture
def device():
    """A device like /dev/zero."""
    path = Path("/dev", f"loopty-test-{secrets.token_hex(4)}")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except OSError as error:
        pytest.skip(f"no device can be made here: {error.strerror}")
    path.chmod(0o666)
    yield path
    path.unlink()


def test_a_device_needs_permission_and_is_part_of_the_fingerprint(place, device):
    place.write("bench.sh", f"echo score: $(head -c 7 {device} | wc -c)\n")
    place.write("src/x", "1")
    (place.top / "loopty.toml").write_text(TASK.format(device=f'"{device}"', shared="false"))
    place.commit()
    refused = place.loopty("run", "1", code=2)
    assert "benchmark.devices" in refused.stderr
    place.trust()
    assert place.json("run", "1")["outcome"]["metrics"]["score"] == 7
    (facts,) = Cohorts.of(place.history().runs[1]).machines.values()
    assert facts["devices"] == str(device)
    (place.top / "loopty.toml").write_text(TASK.format(device='"/dev/none"', shared="false"))
    place.trust()
    assert "character device" in place.loopty("run", "1", "--check", code=2).stderr


def test_trials_take_turns_with_a_device_unless_the_task_shares_it(place, device):
    place.write("bench.sh", "echo score: 1\n")
    place.write("src/x", "1")
    place.write("loopty.toml", TASK.format(device=f'"{device}"', shared="false"))
    place.commit()
    with lock_path(f"device {device}").open("w") as other_trial:
        fcntl.flock(other_trial, fcntl.LOCK_EX)
        waiting = place.start("run", "1", "--check")
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(3)
        place.write("loopty.toml", TASK.format(device=f'"{device}"', shared="true"))
        place.loopty("run", "1", "--check")
    assert waiting.wait(60) == 0
    waiting.communicate()
