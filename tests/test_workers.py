"""The processes that run the tests in parallel."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parent / "conftest.py"
TESTS = """
import asyncio
import threading

import pytest


@pytest.mark.parametrize("number", range(4))
def test_before(number):
    pass


async def test_that_hangs_also_after_its_limit():
    await asyncio.to_thread(threading.Event().wait)


@pytest.mark.parametrize("number", range(4))
def test_after(number):
    pass
"""


def test_one_that_hangs_also_after_its_limit_fails_and_all_others_run(tmp_path):
    conftest = CONFTEST.read_text()
    assert "_SECONDS_TO_END = 120" in conftest
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "conftest.py").write_text(conftest.replace("_SECONDS_TO_END = 120", "_SECONDS_TO_END = 1"))
    shutil.copy(CONFTEST.with_name("clean_environment.py"), folder)
    shutil.copytree(
        CONFTEST.with_name("servers"), folder / "servers", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "test_hanging.py").write_text(TESTS)
    options = ["timeout=3", "timeout_method=signal", "asyncio_mode=auto", "faulthandler_timeout=60"]
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    command += ["--import-mode=importlib"]
    run = subprocess.run(
        [*command, "--rootdir", tmp_path, *(part for option in options for part in ("-o", option)), tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert re.search(r"2 failed, 8 passed", run.stdout), run.stdout + run.stderr  # its limit, and its worker
