"""What a trial sees, and what it does not."""

from __future__ import annotations

import json
import os
import socket

import pytest

from loopty.domain.launch import Mount, SandboxError


async def test_the_tree_is_read_only_and_the_edit_directory_is_not(place):
    (place.tree / "file").write_text("kept")
    ran = await place.shell("echo no > /tree/file; echo no > /tree/new; rm -f /tree/file; echo yes > /edit/new")
    assert (place.tree / "file").read_text() == "kept"
    assert not (place.tree / "new").exists()
    assert (place.edit / "new").read_text() == "yes\n"
    assert "Read-only file system" in ran.err


async def test_the_system_cannot_be_written(place):
    ran = await place.shell(
        "for d in / /usr /etc /dev /proc/sys/kernel /opt; do echo x > $d/loopty && echo wrote $d; done"
    )
    assert "wrote" not in ran.out


async def test_homes_passwords_and_host_state_are_hidden(place):
    script = "ls -d /root /home /etc/shadow /etc/ssh /run /var /sys /mnt /tmp/*; echo $HOME"
    ran = await place.shell(script, mounts=(), cwd="/")
    assert set(ran.out.split()) <= {"/tmp/home"}


async def test_no_variable_of_the_host_reaches_the_trial(place, monkeypatch):
    monkeypatch.setenv("SECRET", "leaked")
    ran = await place.shell("cat /proc/self/environ /proc/1/environ | tr '\\0' '\\n'", env={"ASKED": "for"})
    names = {line.partition("=")[0] for line in ran.out.split()}
    assert names == {"ASKED", "HOME", "PWD"}


async def test_the_first_process_tells_nothing_of_the_host(place):
    ran = await place.shell("cat /proc/1/cmdline")
    assert str(place.root) not in ran.out


async def test_only_the_standard_descriptors_are_inherited(place):
    ran = await place.python("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
    assert json.loads(ran.out) == [0, 1, 2, 3]


async def test_host_processes_are_hidden(place):
    ran = await place.shell("ls -d /proc/[0-9]*")
    assert len(ran.out.split()) <= 4


async def test_loopback_services_of_the_host_are_out_of_reach(place):
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        ran = await place.python(script)
    assert ran.exit.code != 0
    assert "refused" in ran.err


async def test_abstract_sockets_of_the_host_are_out_of_reach(place):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0loopty-test-{os.getpid()}")
        server.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0loopty-test-{os.getpid()}')"
        ran = await place.python(script)
    assert "refused" in ran.err


async def test_a_launch_that_asks_for_the_network_has_it(place):
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        ran = await place.python(script, network=True)
    assert ran.exit.code == 0


async def test_later_mounts_cover_earlier_ones(place):
    (place.tree / "part").mkdir()
    other = place.root / "other"
    other.mkdir(mode=0o755)
    (other / "file").write_text("covering")
    launch = place.launch("/bin/cat", "/tree/part/file")
    launch = place.launch(*launch.argv, mounts=(*launch.mounts, Mount(other, "/tree/part")))
    assert (await place.run(launch)).out == "covering"


async def test_a_single_file_can_be_mounted(place):
    (place.root / "one").write_text("alone")
    (place.root / "one").chmod(0o644)
    launch = place.launch("/bin/cat", "/one", mounts=(Mount(place.root / "one", "/one"),), cwd="/")
    assert (await place.run(launch)).out == "alone"


async def test_scratch_starts_empty_is_bounded_and_vanishes(place, bounded):
    script = "ls -A /build; head -c 3000000 /dev/zero > /build/file; stat -c %s /build/file"
    for _ in range(2):
        ran = await place.shell(script, scratch=("/build",), bounds=bounded(disk_mb=2))
        assert ran.out == f"{2 << 20}\n"


@pytest.mark.parametrize("directory", ["/tmp", "/dev/shm"])
async def test_memory_file_systems_are_bounded(place, bounded, directory):
    script = f"for i in 1 2 3 4; do head -c 1000000 /dev/zero > {directory}/$i; done; du -sb {directory}"
    ran = await place.shell(script, bounds=bounded(disk_mb=2))
    assert "No space left" in ran.err


async def test_a_link_as_bind_source_is_refused(place):
    (place.root / "link").symlink_to(place.tree)
    with pytest.raises(SandboxError, match="symbolic link"):
        await place.run(place.launch("/bin/true", mounts=(Mount(place.root / "link", "/tree"),)))


async def test_a_link_on_the_way_to_a_bind_source_is_refused(place):
    (place.tree / "below").mkdir()
    (place.root / "link").symlink_to(place.tree)
    with pytest.raises(SandboxError, match="symbolic link"):
        await place.run(place.launch("/bin/true", mounts=(Mount(place.root / "link" / "below", "/tree"),)))


async def test_a_missing_bind_source_is_the_sandbox_failing(place):
    with pytest.raises(SandboxError, match="absent"):
        await place.run(place.launch("/bin/true", mounts=(Mount(place.root / "absent", "/tree"),)))


async def test_a_mount_point_that_the_trial_could_move_is_refused(place):
    mounts = (Mount(place.edit, "/tree", writable=True), Mount(place.tree, "/tree/a/b"))
    with pytest.raises(SandboxError, match="may write"):
        await place.run(place.launch("/bin/true", mounts=mounts))
    assert list(place.edit.iterdir()) == []


async def test_the_kernel_settings_of_the_host_cannot_be_written(place):
    # The present value is written back, so that the host is unharmed when the defence is not there.
    ran = await place.shell(
        'cd /proc/sys/kernel; pattern=$(cat core_pattern); echo "$pattern" > core_pattern && echo wrote'
    )
    assert ran.out == ""
    assert ran.exit.code != 0


async def test_a_trial_is_never_root_on_the_host(place):
    await place.shell("touch /edit/mine")
    assert (place.edit / "mine").stat().st_uid != 0
