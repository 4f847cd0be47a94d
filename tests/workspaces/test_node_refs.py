"""Git keeps the commits of nodes, outside the branch list."""

import subprocess
import sys

from loopty.workspaces import node_refs
from loopty.workspaces.node_refs import NodeRefs

from .conftest import User


def commits(user: User, count: int) -> list[str]:
    """Commits of nodes, each a change to the same base."""
    repository, base = user.repository, user.commits({"a": "1"})
    return [repository.commit(base, {"x": f"{number}"}, {}, "made").commit for number in range(count)]


def test_what_a_run_holds_survives_gits_own_gc(user: User) -> None:
    made = commits(user, 5)
    for commit in made:
        NodeRefs(user.repository).hold(3, [commit])
    user.git("gc", "--quiet", "--prune=now")
    assert NodeRefs(user.repository).commits(3) == made[::-1]
    assert NodeRefs(user.repository).runs() == [3]
    for number, commit in enumerate(made):
        assert user.git("show", f"{commit}:x") == f"{number}".encode()
    user.git("fsck", "--strict")


def test_commits_that_come_at_once_are_held_together_and_none_stays_behind(user: User) -> None:
    made, refs = commits(user, 30), NodeRefs(user.repository)
    refs.hold_soon(3, made[0])
    assert refs.commits(3) == [made[0]], "the first one at once"
    for commit in made[1:]:
        refs.hold_soon(3, commit)
    links = user.git("rev-list", "--first-parent", "--count", "refs/loopty/runs/3")
    assert int(links) <= 4, "the start, the first commit, and twenty together"
    refs.hold_soon(4, made[0])
    refs.hold_waiting()
    assert NodeRefs(user.repository).commits(3) == made[::-1]
    assert NodeRefs(user.repository).commits(4) == [made[0]]
    user.git("gc", "--quiet", "--prune=now")
    user.git("fsck", "--strict")


def test_a_commit_that_comes_later_is_held_at_once_with_those_that_wait(user: User, monkeypatch) -> None:
    made, refs = commits(user, 3), NodeRefs(user.repository)
    for commit in made[:2]:
        refs.hold_soon(3, commit)
    monkeypatch.setattr(node_refs, "_SECONDS_BETWEEN_LINKS", 0)
    refs.hold_soon(3, made[2])
    assert refs.commits(3) == made[::-1]


def test_a_commit_that_no_other_follows_is_held_after_a_moment(user: User) -> None:
    base, repository = user.commits({"a": "1"}), user.repository
    refs, made = NodeRefs(repository), []
    for number in range(3):
        made.append(repository.commit(base, {"a": f"{number} 1"}, {}, "m").commit)
        refs.hold_soon(3, made[-1])
    assert refs._timer
    refs._timer.join()
    user.git("gc", "--quiet", "--prune=now")
    assert NodeRefs(user.repository).commits(3) == made[::-1]
    user.git("fsck", "--strict")


def test_no_branch_is_made_and_push_all_publishes_nothing(user: User) -> None:
    refs = NodeRefs(user.repository)
    refs.hold(1, commits(user, 3))
    assert user.git("branch", "--list", "--all", "--format=%(refname)").split() == [b"refs/heads/main"]
    user.git("init", "-q", "--bare", "../remote.git")
    user.git("push", "-q", "--all", "../remote.git")
    found = user.git("--git-dir", "../remote.git", "for-each-ref", "--format=%(refname)")
    assert found.split() == [b"refs/heads/main"]


def test_a_fetch_offers_the_users_commits_before_those_of_nodes(user: User) -> None:
    refs = NodeRefs(user.repository)
    refs.hold(1, commits(user, 300))
    newest = user.git("rev-list", "--all", "--max-count=1").decode().strip()
    assert newest == user.git("rev-parse", "main").decode().strip()


def test_released_commits_go_and_those_that_others_need_stay(user: User) -> None:
    made = commits(user, 250)
    child = user.repository.commit(made[0], {"x": "child"}, {}, "made").commit
    refs = NodeRefs(user.repository)
    refs.hold(1, [*made, child])
    refs.release(1, {made[0], *made[10:]})
    assert refs.commits(1) == [child, *made[1:10][::-1]]
    user.git("gc", "--quiet", "--prune=now")
    assert user.git("show", f"{made[0]}:x") == b"0"
    assert user.repository.content(child, "x") == b"child"


def test_a_run_that_holds_nothing_is_left_alone(user: User) -> None:
    user.commits({"a": "1"})
    refs = NodeRefs(user.repository)
    refs.release(7, {"a" * 40})
    assert refs.commits(7) == []
    assert refs.runs() == []


WORKER = """
import sys
from pathlib import Path
from loopty.workspaces.node_refs import NodeRefs
from loopty.git.repository import Repository

repository = Repository.open(Path(sys.argv[1]))
refs, base, worker = NodeRefs(repository), sys.argv[2], sys.argv[3]
mine = [repository.commit(base, {"x": f"{worker} {number}"}, {}, "made").commit for number in range(6)]
for commit in mine:
    refs.hold(1, [commit])
refs.release(1, {mine[0]})
print(*mine[1:])
"""


def test_processes_that_change_one_run_at_once_lose_nothing(user: User) -> None:
    base = user.commits({"a": "1"})
    command = [sys.executable, "-c", WORKER, str(user.top), base]
    workers = [subprocess.Popen([*command, str(name)], stdout=subprocess.PIPE, text=True) for name in range(8)]
    made = [commit for worker in workers for commit in worker.communicate(timeout=300)[0].split()]
    assert len(made) == 40
    assert set(NodeRefs(user.repository).commits(1)) == set(made)
