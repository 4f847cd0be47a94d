"""The commands that start workers of the pool."""

import asyncio

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.task_tables import ExecutorSpec
from loopty.features.fleet import host_workers
from loopty.features.fleet.host_workers import HostWorkers, require_hosts, worker_command


def test_a_host_gets_a_worker_over_ssh():
    command = worker_command("ssh://me@box:2222/scratch/a%20b?loopty=/opt/loopty/bin/loopty")
    assert command[0] == "ssh"
    assert command[-4:-1] == ["-p", "2222", "me@box"]
    assert command[-1] == "exec /opt/loopty/bin/loopty worker --stdio --trust --dir '/scratch/a b'"


@pytest.mark.parametrize(
    "host",
    [
        "ssh://-oProxyCommand=touch%20x/a",
        "ssh://me@-oProxyCommand/a",
        "ssh://-l@box/a",
        "ssh://me:secret@box/a",
        "ssh://box",
        "ssh://box/",
        "ssh://box:x/a",
        "scratch/a",
    ],
)
def test_what_is_no_host_is_refused(host):
    with pytest.raises(Misuse, match="hosts names"):
        worker_command(host)


def test_a_command_on_the_host_is_quoted():
    assert worker_command("ssh://box/a;touch x")[-1].endswith("--dir '/a;touch x'")


async def test_hosts_without_a_worker_are_given_up_with_the_reason(monkeypatch):
    monkeypatch.setattr(host_workers, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(host_workers, "worker_command", lambda _: ["sh", "-c", "echo disk full >&2; exit 1"])

    async def admit(link, _host):
        await asyncio.sleep(0)
        link.close()
        return "it closed the connection"

    said = []
    hosts = HostWorkers(ExecutorSpec(hosts=("/scratch/a",)), admit, said.append)
    assert hosts.exhaustion() == ""
    hosts.start()
    async with asyncio.timeout(60):
        while not hosts.exhaustion():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
    assert hosts.exhaustion() == "/scratch/a: disk full"
    assert said == ["no worker from /scratch/a: disk full"]
    await hosts.close()


def test_ray_without_its_package_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Misuse, match=r"needs ray: run "):
        require_hosts(["ray:"])
