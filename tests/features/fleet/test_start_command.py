"""The command that starts a worker anywhere: what it gets, what is shown of it, and that nothing of it is left."""

import asyncio
import os
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.task_tables import ExecutorSpec
from loopty.features.fleet import host_workers, start_command
from loopty.features.fleet.host_workers import HostWorkers, StartTerms, require_hosts
from loopty.features.fleet.pool_session import joins_by_url
from loopty.features.fleet.start_command import run_start_command

from ...end_to_end.test_kill import processes_with

URL = "loopty://secret@driver:7700/?certificate=" + "a" * 64
SLEEP = "while :; do sleep 0.1; done"
_LIMIT = 60


async def last_words(command, number=1):
    return await asyncio.wait_for(run_start_command(command, URL, number), _LIMIT)


async def test_the_command_gets_the_url_and_its_number_by_its_environment_alone():
    assert await last_words('echo "$LOOPTY_WORKER_NUMBER $LOOPTY_WORKER_URL"', 3) == f"3 {URL}"
    assert "secret" not in await last_words("tr '\\0' ' ' </proc/$$/cmdline; tr '\\0' ' ' </proc/$PPID/cmdline")


async def test_it_runs_in_the_home_folder_where_no_file_of_the_repository_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert await last_words("pwd") == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert await last_words("pwd") == "it cannot be started (No such file or directory)"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo first; echo 'srun: error: no such partition' >&2; exit 1", "srun: error: no such partition"),
        ("printf 'booting 1 %%\\rbooting 99 %%\\n\\n'", "booting 99 %"),
        ("printf '\\033[31mfull\\033[0m\\n'", "full"),
        ("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", "end"),
        ("exit 3", "it ended with exit code 3 and no word"),
    ],
)
async def test_its_last_line_is_the_reason_why_it_ended(command, shown):
    assert await last_words(command) == shown


async def started(command, sign):
    task = asyncio.create_task(run_start_command(command, URL, 1))
    async with asyncio.timeout(_LIMIT):
        while not sign.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, _LIMIT)


async def test_a_command_that_is_no_longer_wanted_may_give_back_what_it_has(tmp_path):
    sign, machine = tmp_path / "started", tmp_path / "machine"
    give_back = f"trap 'sleep 0.5; rm {machine}; exit' TERM"
    await started(f"touch {machine}; {give_back}; touch {sign}; {SLEEP}", sign)
    assert not machine.exists()


async def test_so_may_a_child_of_a_shell_that_ends_before_it(tmp_path):
    sign, machine = tmp_path / "started", tmp_path / "machine"
    child = f'trap "sleep 0.5; rm {machine}; exit" TERM; touch {sign}; sleep 1000 & wait'
    await started(f"touch {machine}; sh -c '{child}'; true", sign)
    assert not machine.exists()


async def test_a_command_that_does_not_end_is_killed_with_all_of_its_group(tmp_path, monkeypatch):
    monkeypatch.setattr(start_command, "_GIVE_BACK_SECONDS", 0.5)
    sign, stubborn = tmp_path / "started", f"1000.{os.getpid()}"
    await started(f"trap '' TERM; touch {sign}; sleep {stubborn} & sleep {stubborn}", sign)
    assert processes_with(stubborn) == []


async def test_what_a_command_leaves_in_the_background_ends_with_it():
    stubborn = f"2000.{os.getpid()}"
    assert await last_words(f"sleep {stubborn} & echo started") == "started"
    assert processes_with(stubborn) == []


async def until_exhausted(hosts):
    hosts.start()
    async with asyncio.timeout(_LIMIT):
        while not hosts.exhaustion():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
    await hosts.close()
    return hosts.exhaustion()


async def test_one_that_ends_early_is_started_three_times_and_its_reason_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setattr(host_workers, "_PAUSE_SECONDS", 0.0)
    said, command = [], f"echo $LOOPTY_WORKER_NUMBER >>{tmp_path}/starts; echo disk full; exit 1"
    hosts = HostWorkers(ExecutorSpec(start=command, workers=2), lambda *_: None, said.append)
    assert await until_exhausted(hosts) == "executor.start: disk full"
    assert said == ["no worker from executor.start: disk full"]
    assert sorted((tmp_path / "starts").read_text().split()) == ["1", "1", "1", "2", "2", "2"]


@pytest.mark.parametrize(("joins", "starts"), [(False, 3), (True, 4)])
async def test_time_without_a_worker_is_no_success(tmp_path, monkeypatch, joins, starts):
    """Else a machine whose set-up fails would be rented again and again."""
    monkeypatch.setattr(host_workers, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(host_workers, "_LONG_SECONDS", 0.0)
    joined = iter([0, 1, 1, 2] if joins else [])  # before and after the first two tries
    terms = StartTerms(joined=lambda: next(joined, 2))
    file = tmp_path / "starts"
    hosts = HostWorkers(ExecutorSpec(start=f"echo x >>{file}"), lambda *_: None, print, terms)
    await until_exhausted(hosts)
    assert len(file.read_text().split()) == starts


@pytest.mark.parametrize("host", ["slurm:gpu?workers=8", "sky:aws", "modal:"])
def test_an_entry_of_a_scheduler_names_the_recipe(host):
    with pytest.raises(Misuse, match=f"loopty system worker --recipe {host.partition(':')[0]}"):
        require_hosts([host])


def test_workers_of_a_command_and_of_ray_join_by_the_url():
    assert joins_by_url(ExecutorSpec(start="sh x")) == "sh x"
    assert joins_by_url(ExecutorSpec(hosts=("/a", "ray:"))) == "ray:"
    assert joins_by_url(ExecutorSpec(hosts=("/a", "ssh://box/a"))) == ""
    assert Path(start_command.__file__).with_name("recipes").is_dir()
