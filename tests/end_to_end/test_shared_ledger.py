"""One ledger on a server, several clones: what one records, the others see, and a run goes on elsewhere."""

import json
import signal
import time
from pathlib import Path

import psycopg
import pytest

from loopty.domain.trial import Ending, Pool
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.sessions import SessionEnded
from loopty.record.trials import TrialEnded, TrialStarted

from ..servers.postgres_server import PostgresServer
from .conftest import ECHO_X, PARAMETER_TASK, Place

_LIMIT_SECONDS = 120.0


@pytest.fixture
def clones(parameter_place, tmp_path, ledger_url):
    """Two clones of one repository that share a ledger."""
    task = PARAMETER_TASK.format(attempts=6, command=json.dumps(f"sleep 0.2; {ECHO_X}"))
    parameter_place.write("loopty.toml", task)
    parameter_place.commit()
    second = Place(tmp_path / "second")
    parameter_place.git("clone", "-q", str(parameter_place.top), str(second.top))
    second.trust()
    for place in (parameter_place, second):
        assert place.json("ledger", ledger_url) == {"url": ledger_url, "source": "repository", "runs": 0}
    return parameter_place, second


def let_leases_end(ledger, seconds):
    query = "UPDATE leases SET expires = clock_timestamp() + make_interval(secs => %s)"
    ledger._server.line.connection().execute(query, (seconds,))


@pytest.fixture
def driver(clones):
    """`optimize` in the first clone, gone at the end whatever happens."""
    process = clones[0].start("optimize", "--quiet")
    yield process
    process.kill()
    process.communicate()


def stop_between_writes(driver, ledger) -> None:
    """Stop the driver where it holds no lock: one that stands still in a write would keep everybody waiting."""
    for _ in range(20):
        driver.send_signal(signal.SIGSTOP)
        try:
            return let_leases_end(ledger, 3600)
        except psycopg.errors.LockNotAvailable:
            driver.send_signal(signal.SIGCONT)
            time.sleep(0.05)
    raise AssertionError("the driver holds a lock all the time")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGCONT])
def test_a_run_goes_on_in_another_clone_and_a_driver_that_comes_back_changes_nothing(
    clones, driver, ledger_url, end
):
    first, second = clones
    ledger, deadline = open_ledger(ledger_url), time.monotonic() + _LIMIT_SECONDS
    while sum(isinstance(item.event, TrialEnded) for item in ledger.read()) < 3:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    stop_between_writes(driver, ledger)
    assert second.json("status")["state"] == "running"
    assert second.loopty("optimize", "--quiet", code=2).stderr.count("already driven") == 1
    let_leases_end(ledger, -1)
    assert second.json("status")["state"] == "lost"
    second.loopty("optimize", "--quiet")
    recorded = list(ledger.read())
    driver.send_signal(end)
    driver.wait()
    message = driver.stderr.read()
    assert (driver.returncode, "was taken for dead" in message) in [(-signal.SIGKILL, False), (2, True)], message
    assert "Traceback" not in message
    assert list(ledger.read()) == recorded
    events = [item.event for item in recorded]
    pools = {(event.node, event.number): event.pool for event in events if isinstance(event, TrialStarted)}
    ended = [event for event in events if isinstance(event, TrialEnded)]
    scored = [event for event in ended if event.outcome.ending is Ending.FINISHED]
    attempts = [event.node for event in scored if pools[event.node, event.number] is Pool.ATTEMPT]
    assert len(attempts) == len(set(attempts)) == 7  # six, and the baseline: none twice, none lost
    assert [event.lost for event in events if isinstance(event, SessionEnded)] == [True, False]
    assert ledger.flaw() is None
    for verb in ("best", "tree"):
        assert first.loopty(verb, "--json").stdout == second.loopty(verb, "--json").stdout
    assert first.json("status")["state"] == "stopped"
    assert first.json("report")
    ledger.close()


def test_a_node_of_one_clone_is_changed_further_in_another(code_place, tmp_path, ledger_url):
    second = Place(tmp_path / "second")
    code_place.git("clone", "-q", str(code_place.top), str(second.top))
    second.trust()
    for place in (code_place, second):
        place.loopty("ledger", ledger_url)
    code_place.loopty("run", "1")
    change(code_place, "1", "7")
    refused = second.loopty("new", "--parent", "1.1", code=None)
    assert refused.returncode
    assert "git fetch OTHER_CLONE '+refs/loopty/runs/*:refs/loopty/fetched/*'" in refused.stderr
    second.git("fetch", "-q", str(code_place.top), "+refs/loopty/runs/*:refs/loopty/fetched/*")
    better = change(second, "1.1", "8")
    assert code_place.json("best")["id"] == better


def change(place, parent, number):
    """The id of a better node, made by hand."""
    made = place.json("new", "--parent", parent)
    Path(made["workspace"], "src/x.txt").write_text(f"{number}\n")
    assert place.json("run", made["node"])["verdict"] == "kept"
    return made["node"]


def test_a_database_that_is_restarted_loses_nothing_of_a_run(parameter_place, postgres):  # noqa: ARG001
    task = PARAMETER_TASK.format(attempts=6, command=json.dumps(f"sleep 0.2; {ECHO_X}"))
    parameter_place.write("loopty.toml", task)
    parameter_place.commit()
    server = PostgresServer()
    driver = None
    try:
        parameter_place.loopty("ledger", server.url())
        ledger, deadline = open_ledger(server.url()), time.monotonic() + _LIMIT_SECONDS
        driver = parameter_place.start("optimize", "--quiet")
        while sum(isinstance(item.event, TrialEnded) for item in ledger.read()) < 3:
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        server.kill()
        server.start()
        output, message = driver.communicate(timeout=_LIMIT_SECONDS)
        assert driver.returncode == 0, (output, message)
        events = [item.event for item in ledger.read()]
        ended = [event for event in events if isinstance(event, TrialEnded)]
        assert len({event.node for event in ended}) >= 7
        assert all(event.outcome.ending is Ending.FINISHED for event in ended)
        assert [event.lost for event in events if isinstance(event, SessionEnded)] == [False]
        assert ledger.flaw() is None
        ledger.close()
    finally:
        if driver and driver.poll() is None:
            driver.kill()
            driver.communicate()
        server.remove()
