"""The tools of agents answer at every door, however loopty was installed and whoever calls.

Needs a package index and minutes: `pytest -m registry tests/installed/test_doors.py`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..clean_environment import SYSTEM_PATH, build_wheel, copy_sources

pytestmark = pytest.mark.registry
USER = 12_345
PYTHON = os.environ.get("DOORS_PYTHON", sys.executable)
"""The interpreter of the installations; for an ordinary user, one that every user can read."""
TASK = """\
[benchmark]
command = "sh bench.sh"
timeout_seconds = 60
[access]
write = ["src/**"]
[parameters]
a = {{ type = "float", low = 0.0, high = 2.0, default = 0.5 }}
[tune]
slice = "dev"
[pools]
attempts = {attempts}
[proposer]
kind = "agent"
{agent}
"""
LINE = """loopty tool check && loopty tool submit mode=tune params='{"a": 1.0}'"""
COMMAND = f"agent = 'command'\ncommand = ['sh', '-c', '''said=$({LINE} 2>&1)\n"
COMMAND += """echo 9 > src/x.txt; echo "SUMMARY: $(echo "$said" | tail -n 1)"''']"""
ACP = "agent = 'acp'\ncommand = ['python3', 'acp_agent.py']"
ACP_AGENT = f"""\
import json, subprocess, sys
for line in sys.stdin:
    message = json.loads(line)
    method, number, result = message.get("method"), message.get("id"), None
    if method == "initialize":
        result = {{"protocolVersion": 1, "agentCapabilities": {{}}}}
    elif method == "session/new":
        result = {{"sessionId": "s"}}
    elif method == "session/prompt":
        done = subprocess.run({LINE!r}, shell=True, capture_output=True, text=True)
        said = (done.stdout + done.stderr).strip().splitlines()[-1]
        open("src/x.txt", "w").write("11\\n")
        text = {{"type": "text", "text": "SUMMARY: " + said}}
        chunk = {{"sessionUpdate": "agent_message_chunk", "content": text}}
        update = {{"jsonrpc": "2.0", "method": "session/update", "params": {{"sessionId": "s", "update": chunk}}}}
        print(json.dumps(update), flush=True)
        result = {{"stopReason": "end_turn"}}
    if number is not None and method:
        print(json.dumps({{"jsonrpc": "2.0", "id": number, "result": result or {{}}}}), flush=True)
"""


def run(*words: object, **options: object) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=900, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return str(done.stdout + done.stderr)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A folder that any user can read, with the installers, and loopty's wheel among those that it needs."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        top.chmod(0o755)
        (top / "built").mkdir()
        wheel = build_wheel(copy_sources(top / "source"), top / "built")
        run(sys.executable, "-m", "pip", "download", "-q", "-d", top / "wheels", wheel)
        run(sys.executable, "-m", "venv", top / "installers")
        run(top / "installers/bin/pip", "install", "-q", "uv", "pipx")
        yield top


def _wheel(home: Path) -> Path:
    (wheel,) = (home / "built").glob("*.whl")
    return wheel


def _active(home: Path) -> tuple[Path, dict[str, str]]:
    run(PYTHON, "-m", "venv", "--clear", "--without-pip", home / "venv")
    pip = [sys.executable, "-m", "pip", "--python", home / "venv/bin/python", "install", "-q"]
    run(*pip, _wheel(home))
    return home / "venv/bin/loopty", {"VIRTUAL_ENV": str(home / "venv"), "PATH": f"{home}/venv/bin:{SYSTEM_PATH}"}


def _by_path(home: Path) -> tuple[Path, dict[str, str]]:
    program, _ = _active(home)
    return program, {"PATH": SYSTEM_PATH}


def _editable(_home: Path) -> tuple[Path, dict[str, str]]:
    programs = Path(sys.executable).parent
    return programs / "loopty", {"PATH": f"{programs}:{SYSTEM_PATH}"}


def _uv_tool(home: Path) -> tuple[Path, dict[str, str]]:
    folders = {"UV_TOOL_DIR": str(home / "uv"), "UV_TOOL_BIN_DIR": str(home / "uv-bin")}
    command = [home / "installers/bin/uv", "tool", "install", "-q", "--python", PYTHON, "--force"]
    run(*command, "--no-index", "--find-links", home / "wheels", _wheel(home), env={**os.environ, **folders})
    return home / "uv-bin/loopty", {"PATH": f"{home}/uv-bin:{SYSTEM_PATH}"}


def _pipx(home: Path) -> tuple[Path, dict[str, str]]:
    folders = {"PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "pipx-bin")}
    command = [home / "installers/bin/pipx", "install", "-q", "--python", PYTHON, "--force", _wheel(home)]
    run(*command, env={**os.environ, **folders})
    return home / "pipx-bin/loopty", {"PATH": f"{home}/pipx-bin:{SYSTEM_PATH}"}


WAYS = {"editable": _editable, "pip": _active, "path": _by_path, "uv": _uv_tool, "pipx": _pipx}


@pytest.mark.parametrize("user", [0, USER], ids=["root", "ordinary"])
@pytest.mark.parametrize("way", WAYS)
def test_the_tools_answer_at_every_door(home: Path, way: str, user: int) -> None:
    if os.geteuid() != 0 and user == 0:
        pytest.skip("not root here")
    program, variables = WAYS[way](home)
    as_user = {"user": user, "group": user} if os.geteuid() == 0 and user else {}
    if as_user and not _may_run(program, as_user):
        pytest.skip(f"{program}, or its interpreter, is in a folder that another user cannot read")
    own = home / f"{way}-{user}"
    shutil.rmtree(own, ignore_errors=True)
    repository = own / "repository"
    (repository / "src").mkdir(parents=True)
    (repository / "bench.sh").write_text('echo "{\\"score\\": $(cat src/x.txt)}" > "$EVO_RESULT_PATH"\n')
    (repository / "src/x.txt").write_text("5\n")
    (repository / "acp_agent.py").write_text(ACP_AGENT)
    (repository / "loopty.toml").write_text(TASK.format(agent=COMMAND, attempts=1))
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Start"]):
        run("git", "-c", "user.name=a", "-c", "user.email=a@b", *command, cwd=repository)
    if as_user:
        run("chown", "-R", f"{user}:{user}", own)
    options = {"cwd": repository, "env": {**variables, "HOME": str(own), "LANG": "C.UTF-8"}, **as_user}

    run(program, "trust", "--yes", **options)
    assert "TASK" in run(program, "tool", "context", **options), "the shell"
    assert "Opened @2" in mcp(program, options)
    run(program, "optimize", **options)
    assert tuned(program, options) == 1
    (repository / "loopty.toml").write_text(TASK.format(agent=ACP, attempts=2))
    run(program, "trust", "--yes", **options)
    run(program, "optimize", **options)
    assert tuned(program, options) == 2


def tuned(program: Path, options: dict[str, object]) -> int:
    """Count the nodes that say what the last line was answered that their agent typed."""
    return run(program, "tree", "--json", **options).count("on the slice with a = 1;")


def _may_run(program: Path, as_user: dict[str, int]) -> bool:
    try:
        return not subprocess.run([program, "--version"], capture_output=True, **as_user).returncode  # type: ignore[call-overload]
    except PermissionError:
        return False


def mcp(program: Path, options: dict[str, object]) -> str:
    """The answer to `open` by the server that a host starts."""
    hello = {"protocolVersion": "2025-06-18", "clientInfo": {"name": "claude-code"}, "capabilities": {}}
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "open", "arguments": {"hypothesis": "by MCP"}},
        },
    ]
    command = [str(program), "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **options) as server:  # type: ignore[call-overload]
        server.stdin.write("".join(f"{json.dumps(call)}\n" for call in calls))
        server.stdin.flush()
        said = [json.loads(server.stdout.readline()) for _ in calls]
        server.stdin.close()
    return str(said[-1]["result"]["content"][0]["text"])
