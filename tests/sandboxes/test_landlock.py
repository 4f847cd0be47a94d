"""Landlock passes the conformance suites, and older versions of it declare what they do not enforce."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Protection, SandboxError
from loopty.sandboxes.cgroup import can_make_cgroups
from loopty.sandboxes.landlock import order
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.testing.sandbox_harness import pids_with
from loopty.testing.sandbox_suite import DAEMON, IsolationConformance, SandboxConformance

from ..needs import needs


def has_landlock() -> bool:
    try:
        return order.version() >= order.SCOPES_VERSION
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock, or an old one")


class TestLandlock(SandboxConformance, IsolationConformance):
    @pytest.fixture
    def sandbox(self):
        return Landlock()


@pytest.fixture
def harness(harness_of):
    return harness_of(Landlock())


async def test_a_file_that_is_not_executable_gives_126(harness):
    (harness.tree / "text").write_text("not a program")
    assert (await harness.run(harness.launch("/tree/text"))).exit.code == 126


async def test_the_message_about_a_kernel_without_landlock_has_the_remedy(harness):
    with pytest.raises(SandboxError, match=r"lsm=landlock"):
        await Landlock(abi=0).run(harness.launch("/bin/true"), asyncio.Event())


@pytest.mark.parametrize("abi", range(1, order.version() + 1) if has_landlock() else [])
async def test_a_trial_runs_under_every_older_version_of_landlock(harness_of, abi):
    harness = harness_of(Landlock(abi))
    script = "echo no > $EDIT/../loopty || echo yes > $EDIT/file; cat $EDIT/file"
    result = await harness.shell(script)
    assert (result.out, (harness.edit / "file").read_text()) == ("yes\n", "yes\n")


async def test_older_versions_declare_what_they_do_not_enforce():
    gaps = {gap.protection for gap in Landlock(abi=5).gaps}
    assert {Protection.OTHERS, Protection.SURVIVORS} <= gaps
    always = {Protection.CALLS} if can_make_cgroups() else {Protection.CALLS, Protection.MEMORY}
    assert {gap.protection for gap in Landlock().gaps} == always


async def test_a_trial_cannot_kill_its_supervisor(harness):
    script = f"'landlock-daemon'\n{DAEMON}\n"
    script += "try:\n    os.kill(os.getppid(), 9)\nexcept PermissionError:\n    print('refused')"
    result = await harness.python(script)
    assert result.out == "refused\n"
    assert pids_with("landlock-daemon") == []


PROBE = """
import asyncio
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.probe import probe

report = asyncio.run(probe(Landlock()))
print(report.problem, *(gap.protection for gap in report.gaps if gap.protection != "memory"), len(report.tried))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
@needs("setpriv")
def test_an_ordinary_user_gets_the_same_protections():
    source = Path(loopty.__file__).parent.parent
    identity = ["setpriv", "--reuid=61001", "--regid=61001", "--clear-groups", "--"]
    command = [
        *identity,
        "env",
        "-i",
        f"PYTHONPATH={source}",
        "PYTHONDONTWRITEBYTECODE=1",
        "/usr/bin/python3",
        "-c",
    ]
    if subprocess.run([*command, "import loopty.domain.launch"], capture_output=True, check=False).returncode:
        pytest.skip("an ordinary user has no interpreter here that can import loopty")
    done = subprocess.run([*command, PROBE], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == ["calls", "8"]
