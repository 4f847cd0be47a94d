"""Submodules are part of the tree of a trial, at the recorded commit; nothing of their configuration runs."""

import os
import subprocess

import pytest

from .conftest import GIT, Place

TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
result = "stdout"
scratch = ["lib/build"]
[access]
write = ["src/**"]
hidden = ["lib/answers/**"]
"""


def git(folder, *args):
    env = {**os.environ, **GIT, "GIT_ALLOW_PROTOCOL": "file"}
    subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True)


def repository(folder, files):
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return folder


@pytest.fixture
def with_submodule(place, tmp_path) -> Place:
    inner = repository(tmp_path / "inner", {"deep.txt": "40"})
    library = repository(tmp_path / "library", {"number.txt": "2", "tool.sh": "echo", "answers/key": "secret"})
    (library / "link").symlink_to("number.txt")
    (library / "tool.sh").chmod(0o755)
    git(library, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "inner")
    git(library, "add", "-A")
    git(library, "commit", "-qm", "more")
    allow = ("-c", "protocol.file.allow=always")
    git(place.top, *allow, "submodule", "add", "-q", str(library), "lib")
    git(place.top, *allow, "submodule", "update", "-q", "--init", "--recursive")
    place.write("src/x", "1")
    place.write(
        "bench.sh",
        "test -x lib/tool.sh || exit 3; test ! -e lib/answers || exit 4; touch lib/build/x || exit 5\n"
        "echo score: $(($(cat lib/link) + $(cat lib/inner/deep.txt)))\n",
    )
    place.write("loopty.toml", TASK)
    place.commit()
    return place


def test_a_trial_sees_the_files_of_submodules_and_of_those_inside_them(with_submodule):
    assert with_submodule.json("run", "1")["outcome"]["metrics"]["score"] == 42


def test_nothing_of_a_submodule_s_configuration_runs(with_submodule, tmp_path):
    place = with_submodule
    config = place.top / ".git/modules/lib"
    mark = tmp_path / "ran"
    git(config, "--git-dir=.", "config", "filter.evil.smudge", f"touch {mark}; cat")
    git(config, "--git-dir=.", "config", "filter.evil.clean", f"touch {mark}; cat")
    git(config, "--git-dir=.", "config", "core.fsmonitor", f"touch {mark}")
    (config / "info").mkdir(exist_ok=True)
    (config / "info/attributes").write_text("* filter=evil\n")
    assert place.json("run", "1")["outcome"]["metrics"]["score"] == 42
    assert not mark.exists()


def test_a_submodule_whose_git_directory_is_elsewhere_is_refused(with_submodule, tmp_path):
    place = with_submodule
    git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "library"), "private.git")
    (place.top / "lib/.git").write_text(f"gitdir: {tmp_path}/private.git\n")
    refused = place.loopty("run", "1", code=2)
    assert "outside the repository" in refused.stderr


def test_a_submodule_that_is_not_checked_out_is_an_empty_folder_until_it_is(with_submodule):
    place = with_submodule
    place.write("bench.sh", "echo score: $(ls lib | grep -c txt)\n")
    place.commit()
    git(place.top, "submodule", "deinit", "-q", "-f", "--all")
    assert place.json("run", "1", "--check")["metrics"]["score"] == 0
    git(place.top, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    assert place.json("run", "1", "--check")["metrics"]["score"] == 1
