"""An isolated candidate cannot tell which node it is, which trial this is, and whom it is measured for."""

import json
import re

import pytest

from loopty import Campaign

from .conftest import Place

TASK = """
[benchmark]
command = "python3 evaluate.py"
timeout_seconds = 60
isolated = true
scratch = ["build"]
[access]
write = ["program.py"]
[noise]
confirm = 1
[pools]
attempts = 8
[[gates]]
name = "loads"
command = "python3 -m loopty_sdk.candidate -- python3 program.py"
"""
EVALUATE = """
import os
from loopty_sdk import Run, candidate
run = Run()
with candidate("program.py:look") as look:
    run.log_task("seen", 1.0, log={"seen": look()})
with candidate("program.py:value") as value:
    run.finish(value() + int.from_bytes(os.urandom(2), "big") / 65536)
"""
# Everything that a process can read about itself; file times relative to now, in hours.
PROGRAM = """
import os, platform, time

def value():
    return VALUE

def text(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError as error:
        return error.strerror

def look():
    processes = sorted((name for name in os.listdir("/proc") if name.isdecimal()), key=int)
    seen = {"environment": dict(os.environ), "host": platform.node(), "user": [os.getuid(), os.getgid()],
            "folder": os.getcwd(), "descriptors": sorted(os.listdir("/proc/self/fd"))}
    for name in ("mountinfo", "cgroup", "limits", "oom_score_adj", "loginuid", "sessionid", "uid_map"):
        seen[name] = text(f"/proc/self/{name}")
    for number, pid in enumerate(processes):
        seen[f"process {number}"] = [text(f"/proc/{pid}/{name}") for name in ("cmdline", "environ", "comm")]
    for top in ("/", "/loopty", "/tmp", "/run", "/dev/shm", "."):
        for folder, folders, files in os.walk(top) if top in (".", "/tmp", "/loopty") else ():
            names = [os.path.join(folder, name) for name in (*folders, *files)]
            hours = (time.time() - os.lstat(folder).st_mtime) // 3600
            seen[f"files in {folder}"] = [sorted(names), hours]
        seen[f"names in {top}"] = sorted(os.listdir(top)) if os.path.isdir(top) else None
    return seen

if __name__ == "__main__":
    try:
        with open("build/was-here", "x"):
            pass
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """What node 1.1 saw, by trial: as a candidate, in its repeats, and as the rival of 1.2."""
    place = Place(tmp_path_factory.mktemp("roles") / "repo")
    place.top.mkdir()
    place.git("init", "-q", "-b", "main")
    place.write("evaluate.py", EVALUATE)
    place.write("program.py", f"VALUE = 0\n{PROGRAM}")
    place.write("loopty.toml", TASK)
    place.commit()
    campaign = Campaign(place.top)  # one process, as in a session of `optimize`
    campaign.run("1")
    for value in (30, 60):
        draft = campaign.new(parent="1")
        (draft.folder / "program.py").write_text(f"VALUE = {value}\n{PROGRAM}")
        assert campaign.run(draft.node).verdict == "kept"
    assert campaign.node("1.2").against == "1.1"
    node = next(path.parent for path in place.top.rglob("task_seen.json") if path.parts[-3] == "1.1").parent
    found = {path.parts[-3]: json.loads(path.read_text()) for path in node.rglob("task_seen.json")}
    return {trial: trace["log"]["seen"] for trial, trace in found.items()}


def without_random_parts(dump):
    """The dump as text, without random tokens and the numbers of mounts: each launch has new ones."""
    dump = dict(dump)
    lines = [line.split() for line in dump["mountinfo"].splitlines()]
    # The numbers of a mount, of the one above it, and of its device; and which peers it has.
    dump["mountinfo"] = sorted(" ".join([*line[3:6], *line[line.index("-") :]]) for line in lines)
    text = json.dumps(dump, indent=1, sort_keys=True)
    text = re.sub(r"[0-9a-f]{16,}", "TOKEN", text)
    # Whether a process sees the name of its cgroup depends on which of two processes was faster.
    text = re.sub(r":/loopty-[0-9-]+-TOKEN", ":/", text)
    return re.sub(r"--args\\u0000\d+", "--args N", text)


def test_there_are_dumps_of_every_role(dumps):
    assert "1.1" in dumps  # as a candidate
    assert len(dumps) >= 9  # repeats, some of them as the rival of 1.2


def test_the_dumps_of_all_roles_are_the_same(dumps):
    texts = {trial: without_random_parts(dump) for trial, dump in dumps.items()}
    for trial, text in texts.items():
        assert text == texts["1.1"], trial


def test_no_dump_names_the_node_the_trial_or_the_role(dumps):
    for trial, dump in dumps.items():
        text = json.dumps(dump)
        assert not re.search(r"\b1\.[12]\b|repeat|attempt|rival|incumbent|EVO_|LOOPTY_", text), trial


def test_what_a_gate_left_behind_is_not_there_in_the_measured_run(dumps):
    assert all(dump["files in ./build"][0] == [] for dump in dumps.values())
