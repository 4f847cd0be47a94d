"""The user's working tree, index, HEAD, stash and refs do not change by a single byte."""

import shutil
import time

import pytest

from .state import status, user_state


@pytest.fixture
def busy_place(code_place):
    """A repository in the middle of somebody's work."""
    code_place.write(".gitignore", "*.log\n")
    code_place.commit()
    code_place.git("tag", "v1")
    code_place.git("branch", "feature")
    code_place.write("src/x.txt", "1\n")
    code_place.git("stash")
    code_place.write("src/staged.txt", "staged\n")
    code_place.git("add", "src/staged.txt")
    code_place.write("src/staged.txt", "staged, then changed\n")
    code_place.write("src/x.txt", "16\n")
    code_place.write("src/untracked.txt", "untracked\n")
    code_place.write("ignored.log", "ignored\n")
    return code_place


def test_no_verb_changes_anything_of_the_users(busy_place):
    before = user_state(busy_place)

    def unchanged(*verb: str, code: int = 0) -> str:
        out = busy_place.loopty(*verb, code=code).stdout
        assert user_state(busy_place) == before, verb
        return out

    unchanged("optimize", "--quiet")
    made = unchanged("new", "--parent", "1", "-m", "by hand").split()
    (busy_place.top / made[1] / "src/x.txt").write_text("17\n")
    unchanged("run", made[0], "--check")
    toml = (busy_place.top / "loopty.toml").read_text()
    busy_place.write("loopty.toml", toml.replace("attempts = 8", "attempts = 9"))
    before = user_state(busy_place)
    unchanged("run", made[0])
    for verb in ("status", "tree", "report", "best"):
        unchanged(verb)
    for verb in ("show", "diff", "replay"):
        unchanged(verb, made[0])
    unchanged("doctor")
    unchanged("apply", made[0])
    assert ".loopty" not in status(busy_place)


def test_init_adds_the_task_file_and_nothing_else(busy_place):
    busy_place.git("rm", "-q", "--cached", "loopty.toml")
    (busy_place.top / "loopty.toml").unlink()
    before = user_state(busy_place)
    busy_place.loopty("init", "--command", "sh bench.sh", "--write", "src/**")
    after = user_state(busy_place)
    assert after["files"].pop("loopty.toml")
    assert after["status"].replace("?? loopty.toml\n", "") == before["status"]
    assert (after["files"], after["git"]) == (before["files"], before["git"])
    assert busy_place.git("branch", "--list", "loopty*") == ""


def test_uncommitted_changes_are_part_of_the_baseline(busy_place):
    busy_place.loopty("run", "1")
    history = busy_place.history()
    assert history.score(history["1"]) == 16
    base = history["1"].commit
    assert busy_place.git("show", f"{base}:src/staged.txt") == "staged, then changed\n"
    assert busy_place.git("show", f"{base}:src/untracked.txt") == "untracked\n"
    assert "ignored.log" not in busy_place.git("ls-tree", "-r", "--name-only", base)
    assert busy_place.git("rev-parse", f"{base}^") == busy_place.git("rev-parse", "HEAD")


def test_a_change_in_the_second_of_the_last_commit_is_part_of_the_baseline(code_place):
    time.sleep(1.05 - time.time() % 1)  # commit and change within one second, loopty later
    code_place.write("src/x.txt", "7\n")
    code_place.commit()
    code_place.write("src/x.txt", "6\n")
    time.sleep(1)
    code_place.loopty("run", "1")
    assert code_place.git("show", f"{code_place.commit_of('1')}:src/x.txt") == "6\n"


def test_two_working_trees_of_one_repository_do_not_move_each_others_refs(code_place):
    code_place.git("worktree", "add", "-q", str(code_place.top.with_name("other")))
    other = type(code_place)(code_place.top.with_name("other"))
    other.write("src/x.txt", "50\n")
    code_place.loopty("run", "1")
    other.loopty("optimize", "--new-run", "--quiet", code=None)
    history = code_place.history()
    assert sorted(history.runs) == [1, 2]
    assert other.git("show", f"{history['2'].commit}:src/x.txt") == "50\n"
    for run in history.runs.values():
        assert history[run.root].commit in code_place.held_commits(run.number)


def test_a_branch_of_the_user_with_the_name_of_a_node_is_not_moved(code_place):
    code_place.git("branch", "loopty-1")
    code_place.write("src/x.txt", "16\n")
    mine = code_place.git("rev-parse", "loopty-1")
    code_place.loopty("run", "1", code=None)
    assert code_place.git("rev-parse", "loopty-1") == mine


def test_commits_stay_when_the_state_folder_is_lost(code_place):
    code_place.loopty("run", "1")
    lost = code_place.held_commits()
    shutil.rmtree(code_place.state)
    code_place.write("src/x.txt", "50\n")
    code_place.loopty("run", "1", code=None)
    assert code_place.held_commits() == lost
    assert sorted(code_place.history().runs) == [2]
    assert code_place.held_commits(2) == [code_place.commit_of("2")]


def test_folders_left_by_a_lost_ledger_are_not_taken_for_those_of_new_nodes(code_place):
    code_place.loopty("run", "1")
    (code_place.state / "ledger.sqlite").unlink()
    code_place.write("src/x.txt", "50\n")
    code_place.loopty("run", "1")
    history = code_place.history()
    root = history.run.root
    assert code_place.held_commits(root.run) == [history[root].commit]
