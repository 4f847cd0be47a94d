"""What a trial with namespaces of its own can see and reach."""

from __future__ import annotations

import os
import socket

import pytest

from loopty.domain.launch import Mount, SandboxError
from loopty.testing.sandbox_harness import bounds_with


async def test_the_tree_is_read_only_and_the_edit_directory_is_not(harness):
    (harness.tree / "file").write_text("kept")
    script = "echo no > /tree/file; echo no > /tree/new; rm -f /tree/file; echo yes > /edit/new"
    result = await harness.shell(script)
    assert (harness.tree / "file").read_text() == "kept"
    assert not (harness.tree / "new").exists()
    assert (harness.edit / "new").read_text() == "yes\n"
    assert "Read-only file system" in result.err


async def test_the_system_cannot_be_written(harness):
    result = await harness.shell(
        "for d in / /usr /etc /dev /proc/sys/kernel /opt; do echo x > $d/loopty && echo wrote $d; done"
    )
    assert "wrote" not in result.out


async def test_homes_passwords_and_the_state_of_the_host_are_hidden(harness):
    script = "ls -d /root /home /etc/shadow /etc/ssh /run /var /sys /mnt /tmp/*; echo $HOME"
    result = await harness.shell(script, mounts=(), cwd="/")
    assert set(result.out.split()) <= {"/tmp/home"}


async def test_no_variable_of_the_host_reaches_the_trial(harness, monkeypatch):
    monkeypatch.setenv("SECRET", "leaked")
    result = await harness.shell("cat /proc/self/environ /proc/1/environ | tr '\\0' '\\n'", env={"OWN": "value"})
    names = {line.partition("=")[0] for line in result.out.split()}
    assert names == {"OWN", "HOME", "TMPDIR", "PWD"}


async def test_the_first_process_shows_nothing_of_the_host(harness):
    result = await harness.shell("cat /proc/1/cmdline")
    assert str(harness.root) not in result.out


async def test_host_processes_are_hidden(harness):
    result = await harness.shell("ls -d /proc/[0-9]*")
    assert len(result.out.split()) <= 4


async def test_loopback_services_of_the_host_are_out_of_reach(harness):
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        result = await harness.python(script)
    assert result.exit.code != 0
    assert "refused" in result.err


async def test_abstract_sockets_of_the_host_are_out_of_reach(harness):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0loopty-test-{os.getpid()}")
        server.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0loopty-test-{os.getpid()}')"
        result = await harness.python(script)
    assert "refused" in result.err


async def test_a_launch_that_asks_for_the_network_has_it(harness):
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        result = await harness.python(script, network=True)
    assert result.exit.code == 0


async def test_later_mounts_cover_earlier_ones(harness):
    (harness.tree / "part").mkdir()
    other = harness.root / "other"
    other.mkdir(mode=0o755)
    (other / "file").write_text("covering")
    launch = harness.launch("/bin/cat", "/tree/part/file")
    launch = harness.launch(*launch.argv, mounts=(*launch.mounts, Mount(other, "/tree/part")))
    assert (await harness.run(launch)).out == "covering"


async def test_a_single_file_can_be_mounted(harness):
    (harness.root / "one").write_text("alone")
    (harness.root / "one").chmod(0o644)
    launch = harness.launch("/bin/cat", "/one", mounts=(Mount(harness.root / "one", "/one"),), cwd="/")
    assert (await harness.run(launch)).out == "alone"


async def test_scratch_starts_empty_is_bounded_and_vanishes(harness):
    script = "ls -A /build; head -c 3000000 /dev/zero > /build/file; stat -c %s /build/file"
    for _ in range(2):
        result = await harness.shell(script, scratch=("/build",), bounds=bounds_with(disk_mb=2))
        assert result.out == f"{2 << 20}\n"


@pytest.mark.parametrize("directory", ["/tmp", "/dev/shm"])
async def test_memory_file_systems_are_bounded(harness, directory):
    script = f"for i in 1 2 3 4; do head -c 1000000 /dev/zero > {directory}/$i; done; du -sb {directory}"
    result = await harness.shell(script, bounds=bounds_with(disk_mb=2))
    assert "No space left" in result.err


async def test_a_link_on_the_way_to_a_bind_source_is_refused(harness):
    (harness.tree / "below").mkdir()
    (harness.root / "link").symlink_to(harness.tree)
    with pytest.raises(SandboxError, match="symbolic link"):
        await harness.run(harness.launch("/bin/true", mounts=(Mount(harness.root / "link" / "below", "/tree"),)))


async def test_a_missing_bind_source_is_a_failure_of_the_sandbox(harness):
    with pytest.raises(SandboxError, match="absent"):
        await harness.run(harness.launch("/bin/true", mounts=(Mount(harness.root / "absent", "/tree"),)))


async def test_a_mount_point_that_the_trial_could_move_is_refused(harness):
    mounts = (Mount(harness.edit, "/tree", writable=True), Mount(harness.tree, "/tree/a/b"))
    with pytest.raises(SandboxError, match="may write"):
        await harness.run(harness.launch("/bin/true", mounts=mounts))
    assert list(harness.edit.iterdir()) == []


async def test_the_kernel_settings_of_the_host_cannot_be_written(harness):
    # The current value is written back, so that the host is unharmed when the protection fails.
    result = await harness.shell(
        'cd /proc/sys/kernel; pattern=$(cat core_pattern); echo "$pattern" > core_pattern && echo wrote'
    )
    assert result.out == ""
    assert result.exit.code != 0


async def test_a_trial_is_never_root_on_the_host(harness):
    await harness.shell("touch /edit/mine")
    assert (harness.edit / "mine").stat().st_uid != 0
