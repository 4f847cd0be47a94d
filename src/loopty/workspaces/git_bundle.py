"""Two trees as one file: a git bundle without the user's history, the same bytes for the same trees."""

from __future__ import annotations

from pathlib import Path

from loopty.engine.protocols import CommittedFiles
from loopty.workspaces.git_command import END_OF_OPTIONS, GitCommand
from loopty.workspaces.git_folders import GitFolders
from loopty.workspaces.repository import Repository
from loopty.workspaces.working_tree import committed_files

# No reuse of packed objects, and one thread: the bytes must not depend on how the user's repository is packed.
_PACK = ("--stdout", "--revs", "--no-reuse-object", "--window=0", "--threads=1", "--compression=6", "--quiet")
# Foreign objects are checked. Zero-padded modes of old gits are harmless and occur in good repositories.
_FETCH_CONFIG = ("fetch.fsckObjects=true", "fetch.fsck.zeroPaddedFilemode=ignore")
_BASELINE, _WINNER = "refs/heads/baseline", "refs/heads/winner"


def write_bundle(git: GitCommand, baseline: str, tree: str, target: Path) -> None:
    """Write two trees as a bundle of two commits, one on top of the other."""
    start = _commit_undated(git, baseline, "baseline")
    end = _commit_undated(git, tree, "winner", "-p", start)
    head = "# v2 git bundle" if len(tree) == 40 else "# v3 git bundle\n@object-format=sha256"
    with target.open("wb") as file:
        file.write(f"{head}\n{end} HEAD\n{start} {_BASELINE}\n{end} {_WINNER}\n\n".encode())
        file.flush()
        git.run_bytes("pack-objects", *_PACK, stdin=f"{end}\n".encode(), into=file)


def _commit_undated(git: GitCommand, tree: str, message: str, *parents: str) -> str:
    dates = {"GIT_AUTHOR_DATE": "@0 +0000", "GIT_COMMITTER_DATE": "@0 +0000"}
    encoding = ("i18n.commitEncoding=UTF-8",)
    options = (*parents, "-m", message, END_OF_OPTIONS)
    return git.run("commit-tree", *options, tree, env=dates, config=encoding).strip()


def unpack_bundle(bundle: Path, top: Path) -> tuple[Repository, CommittedFiles, CommittedFiles]:
    """Make a repository from a bundle of `write_bundle`, at the baseline; returns it, baseline and winner.

    Raises GitError when the bundle is not valid or files are in the way.
    """
    with bundle.open("rb") as file:
        kind = "sha256" if b"\n@object-format=sha256\n" in file.read(64) else "sha1"
    repository = Repository(GitFolders(top, top / ".git", top / ".git"), is_own=False)
    git = repository.git
    git.run("init", "--quiet", "--template=", "--initial-branch=main", f"--object-format={kind}", cwd=top)
    refspecs = (f"{ref}:{ref}" for ref in (_BASELINE, _WINNER))
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc")
    source = (END_OF_OPTIONS, str(bundle.resolve()))
    git.run("fetch", *quiet, *source, *refspecs, config=_FETCH_CONFIG)
    branch, work_tree = _BASELINE.removeprefix("refs/heads/"), {"GIT_WORK_TREE": str(top)}
    git.run("checkout", "--quiet", branch, "--", env=work_tree, cwd=top)
    return repository, committed_files(git, _BASELINE), committed_files(git, _WINNER)
