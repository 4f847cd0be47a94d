"""Every `loopty tool` line that a prompt, a skill or a page tells an agent to type works as it stands there.

In the agent's sandbox, and with a `loopty` of the user in the search path, which cannot run in there.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.tools.table import TOOLS, check_arguments
from loopty_sdk.agent_tool import call_of_words

from .test_agent_command import replies

ROOT = Path(__file__).parents[2]
SOURCES = [
    ROOT / "README.md",
    *(ROOT / "docs").rglob("*.md"),
    *(path for top in ("src", "sdk") for path in (ROOT / top).rglob("*") if path.suffix in (".py", ".md")),
]
TYPED = re.compile(r"`(loopty tool\b[^`]*)`|^[ $]*(loopty tool\b.*)$", re.MULTILINE)
NOT_TYPED = re.compile(r"loopty tool (…|(TOOL|NAME)\b.*|--mailbox)")
"""What stands for any call, and what the user types."""
IN_HOST = re.compile(r"loopty tool (open|submit @).*")
"""What only an agent in the user's own program types: one that loopty started has its draft already."""
TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
[access]
write = ["src/**"]
[noise]
repeat = "never"
[parameters]
step = { type = "float", low = 0.0, high = 10.0, default = 1.0 }
[tune]
slice = "dev"
[pools]
attempts = 3
tunes = 20
[proposer]
kind = "agent"
agent = "command"
command = ["sh", "lines.sh"]
"""


def lines_to_type() -> list[str]:
    """The lines, each once."""
    texts = [path.read_text() for path in SOURCES]
    found = (" ".join((span or line).split()) for text in texts for span, line in TYPED.findall(text))
    return sorted({line for line in found if not NOT_TYPED.fullmatch(line)})


@pytest.fixture
def active(monkeypatch):
    """This environment as it is when it was activated."""
    programs = Path(sys.executable).parent
    if not (programs / "loopty").exists():
        pytest.skip(f"loopty is not installed in {programs}")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("VIRTUAL_ENV", str(programs.parent))


def test_the_lines_are_found():
    found = lines_to_type()
    assert "loopty tool context" in found
    assert """loopty tool submit mode=tune params='{"step": 2.0}'""" in found


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("options", [(), ("--unsafe-no-sandbox",)], ids=["sandbox", "no sandbox"])
def test_every_line_works_word_for_word_in_the_agents_sandbox(code_place, options):
    lines = [line for line in lines_to_type() if not IN_HOST.fullmatch(line)]
    script = "exec 2>&1\necho 9 > src/x.txt\nbash -lc 'loopty tool check'; echo rc $?\n"
    script += "".join(f"{line}\necho rc $?\n" for line in lines)
    code_place.write("lines.sh", script)
    code_place.write("loopty.toml", TASK)
    code_place.commit()
    for _ in range(2):
        code_place.loopty("new", "--parent", "1")
    for draft, value in (("1.1", "6"), ("1.2", "7")):  # lines show them
        code_place.write(f".loopty/drafts/{draft}/src/x.txt", f"{value}\n")
        code_place.loopty("run", draft, *options)
    code_place.loopty("optimize", *options)
    said = replies(code_place)[-1]
    assert re.findall(r"^rc (\d+)$", said, re.MULTILINE) == ["0"] * (len(lines) + 1), said
    assert "with step = 2;" in said


@pytest.mark.usefixtures("active")
def test_the_lines_of_skills_work_word_for_word_in_a_hosts_shell(code_place):
    code_place.write("loopty.toml", TASK.partition("[proposer]")[0])
    code_place.commit()
    lines = sorted(filter(IN_HOST.fullmatch, lines_to_type()))
    *opens, submit = lines
    assert submit == "loopty tool submit @2"
    edit = "echo 9 > .loopty/drafts/1.1/src/x.txt"
    script = "\n".join(f"{line} || exit 1" for line in (opens[0], edit, submit, opens[-1]))
    done = subprocess.run(["bash", "-c", script], cwd=code_place.top, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "@2 kept" in done.stdout


def test_each_tool_says_what_it_takes(place):
    for tool, entry in TOOLS.items():
        said = place.loopty("tool", tool, "--help").stdout
        assert said.startswith(f"{tool}: ")
        assert all(f"  {name}=  " in said for name in entry.arguments)
    assert "loopty tool NAME --help" in place.loopty("tool", "--help").stdout


def example(schema: dict) -> tuple[str, object]:
    """A text, and the value that it stands for."""
    if "enum" in schema:
        return schema["enum"][0], schema["enum"][0]
    if "minimum" in schema:
        return str(schema["minimum"]), schema["minimum"]
    values = {"array": ("1.1,1.2", ["1.1", "1.2"]), "object": ('{"a": 1.0}', {"a": 1.0})}
    return values.get(schema["type"], ("1.2", "1.2"))


def test_words_become_what_the_tool_takes():
    for tool, entry in TOOLS.items():
        needed = {name: example(entry.arguments[name]) for name in entry.needs}
        for name, schema in entry.arguments.items():
            given = needed | {name: example(schema)}
            call = json.loads(call_of_words(tool, [f"{name}={word}" for name, (word, _) in given.items()]))
            assert check_arguments(tool, call["arguments"]) == {name: value for name, (_, value) in given.items()}


def test_a_word_alone_is_the_id():
    assert json.loads(call_of_words("show", ["1.2", "what=diff"]))["arguments"] == {"id": "1.2", "what": "diff"}


@pytest.mark.parametrize("text", ["{step: 2.0}", "[1]", "5", "{" * 100_000, '{"a": [1]}', '{"a": NaN}'])
def test_a_text_that_is_no_object_is_refused(text):
    with pytest.raises(Misuse, match="params of submit must"):
        check_arguments("submit", {"id": "1.2", "params": text})
