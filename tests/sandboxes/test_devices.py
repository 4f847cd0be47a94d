"""Devices: who may use them, and that a trial without them cannot."""

import os
import secrets
import stat
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.sandboxes.trial_view import DeviceNodes, device_facts, find_devices
from loopty.testing.sandbox_harness import SandboxHarness

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")


def make_device(path: Path, minor: int = 5) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    path.chmod(0o666)
    return str(path)


@pytest.fixture
def zeros():
    """A device like /dev/zero, which no sandbox shows by itself."""
    path = Path("/dev", f"loopty-test-{secrets.token_hex(4)}")
    try:
        make_device(path)
    except OSError as error:
        pytest.skip(f"no device can be made here: {error.strerror}")
    yield str(path)
    path.unlink()


@needs_root
@pytest.mark.parametrize("make", [Namespaces, Bubblewrap, Landlock])
async def test_a_trial_reads_and_writes_a_device_that_it_is_given_and_no_other(make, tmp_path, zeros):
    harness = SandboxHarness.create(tmp_path, make())
    script = f"head -c 4 {zeros} && echo x > {zeros}"
    refused = await harness.shell(script)
    assert refused.exit.code != 0
    given = await harness.shell(script, devices=(zeros,))
    assert (given.exit.code, given.out) == (0, "\0" * 4), given.err


@needs_root
def test_a_gpu_is_its_units_and_what_controls_them(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        make_device(tmp_path / name)
    both = find_devices(("gpu",), tmp_path)
    assert both.units == (f"{tmp_path}/nvidia0", f"{tmp_path}/nvidia1")
    assert both.control == (f"{tmp_path}/nvidiactl", f"{tmp_path}/nvidia-uvm")
    one = find_devices(("gpu:1",), tmp_path)
    assert one.resources == (f"device {tmp_path}/nvidia1",)
    with pytest.raises(Misuse, match="no such GPU"):
        find_devices(("gpu:7",), tmp_path)


@needs_root
def test_an_amd_gpu(tmp_path):
    for name in ("kfd", "dri/renderD128", "dri/card0"):
        make_device(tmp_path / name)
    assert find_devices(("gpu",), tmp_path) == DeviceNodes((f"{tmp_path}/dri/renderD128",), (f"{tmp_path}/kfd",))


@pytest.mark.parametrize("name", ["/dev/nothing-here", "/etc/passwd", "null", "gpu:x", "", "/dev/fd"])
def test_only_character_devices_are_devices(name):
    with pytest.raises(Misuse, match="character device"):
        find_devices((name,))


def test_a_machine_without_a_gpu_says_so(tmp_path):
    with pytest.raises(Misuse, match="no such GPU"):
        find_devices(("gpu",), tmp_path)


def test_a_plain_device_shows_no_facts_of_the_machine():
    assert device_facts(("/dev/null",)) == ()


@needs_root
async def test_with_a_device_a_landlock_trial_names_its_threads_and_reads_no_sockets(tmp_path, zeros):
    """CUDA gives up where it cannot write those names."""
    harness = SandboxHarness.create(tmp_path, Landlock())
    script = "echo named > /proc/self/task/$$/comm && echo written; read line < /proc/self/task/$$/net/unix"
    given = await harness.shell(script, devices=(zeros,))
    assert given.out == "written\n"
    assert "Permission denied" in given.err
    assert (await harness.shell(script)).out == ""
