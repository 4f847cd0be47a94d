"""Workers over ssh, against a real sshd: the pool starts them, and they leave nothing behind."""

import json
import os
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from ..servers.ssh_server import SshServer, find_sshd
from .conftest import ECHO_X, PARAMETER_TASK
from .test_kill import processes_with
from .test_workers import assert_sound


@pytest.fixture
def ssh(monkeypatch):
    if find_sshd() is None:
        pytest.skip("sshd is not installed: its Debian package is `openssh-server`")
    server = SshServer()
    monkeypatch.setenv("PATH", f"{server.programs}:{os.environ['PATH']}")
    yield server
    server.remove()


def write_task(place, ssh, folder):
    program = quote(str(Path(sys.executable).with_name("loopty")))
    host = f"ssh://{ssh.user}@127.0.0.1:{ssh.port}{quote(str(folder))}?loopty={program}"
    tables = f"[executor]\nkind = 'pool'\nhosts = [{json.dumps(host)}]\n[noise]\nrepeat = 'never'\n"
    place.write("loopty.toml", PARAMETER_TASK.format(attempts=2, command=json.dumps(ECHO_X)) + tables)
    place.commit()
    place.trust()
    return host


def test_trials_run_on_a_host_over_ssh(place, ssh, tmp_path):
    folder = tmp_path / "over there"
    host = write_task(place, ssh, folder)
    assert place.json("optimize", "--quiet")["sound"]
    assert_sound(place, 2)
    assert list(folder.rglob("*"))
    assert processes_with(str(folder)) == []
    ssh.forget_key()
    refused = place.loopty("optimize", "--quiet", "--new-run", code=None)
    assert refused.returncode
    assert host.partition("?")[0] in refused.stderr
    assert "Permission denied" in refused.stderr
