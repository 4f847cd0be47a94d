"""Git bundles: two trees as one file without the user's history, and a commit as what it adds to its parents."""

from __future__ import annotations

import contextlib
import re
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from loopty.domain.shared_store import StoreFault
from loopty.engine.protocols import CommittedFiles
from loopty.git.command import END_OF_OPTIONS, GitCommand, GitError
from loopty.git.folders import GitFolders
from loopty.git.repository import Repository
from loopty.git.working_tree import committed_files
from loopty.kit.records import Record
from loopty.kit.temporary_folder import temporary_top

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


# Who reads it trusts nobody: git computes the name of every object anew, so what comes in is the commit that the
# ledger names, or nothing.


LARGEST_BUNDLE = 512 << 20
_LONGEST_CHAIN, _LARGEST_CHAIN = 20_000, 2 * LARGEST_BUNDLE
"""Of bundles that wait in memory for those that they build on: who made them may have invented those."""
_REF = "refs/loopty/commit"
_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_LOOSE = 5_000
"""Objects of a bundle that become files of their own, which loopty packs later; more stay one pack."""


class CommitBundle(Record):
    """A bundle that was read: the commits that it builds on, and its pack."""

    bases: tuple[str, ...]
    pack: bytes

    @property
    def objects(self) -> int:
        return int(struct.unpack_from(">I", self.pack, 8)[0])


def make_bundle(git: GitCommand, commit: str, bases: Sequence[str]) -> bytes | None:
    """Bundle the commit without what these commits reach; None if that is too large. Raises GitError."""
    head = "# v2 git bundle\n" if len(commit) == 40 else "# v3 git bundle\n@object-format=sha256\n"
    above = "".join(f"-{base} base\n" for base in bases)
    question = "".join((f"{commit}\n", *(f"^{base}\n" for base in bases))).encode()
    with tempfile.TemporaryFile(dir=temporary_top()) as file:
        file.write(f"{head}{above}{commit} {_REF}\n\n".encode())
        file.flush()
        # A bundle and no git remote: S3 speaks no git, and 10,000 refs slow every fetch.
        git.run_bytes("pack-objects", "--revs", "--stdout", "--quiet", stdin=question, into=file)
        file.seek(0)
        content = file.read(LARGEST_BUNDLE + 1)
    return content if len(content) <= LARGEST_BUNDLE else None


def read_bundle(content: bytes, commit: str) -> CommitBundle:
    """Read the parts of a bundle of this commit. Raises StoreFault if it is another one, or none."""
    head, gap, pack = content.partition(b"\n\n")
    lines = head.decode(errors="replace").splitlines()
    bases = tuple(line[1:].split(" ")[0] for line in lines if line.startswith("-"))
    is_sound = gap and lines[:1] and lines[-1] == f"{commit} {_REF}" and all(map(_OBJECT.fullmatch, bases))
    if not is_sound or not pack.startswith(b"PACK") or len(pack) < 12:
        raise _damage(commit)
    return CommitBundle(bases, pack)


def unpack_bundle_of(
    git: GitCommand, commit: str, get: Callable[[str], bytes | None], has: Callable[[str], bool]
) -> bool:
    """Bring a commit into the repository, with the commits that it builds on; false where the store lacks it.

    `get` finds bundles, `has` says whether a commit is here already. Raises StoreFault where one is damaged.
    """
    found: dict[str, CommitBundle] = {}
    wanted, left = [commit], _LARGEST_CHAIN
    while wanted:
        name = wanted.pop()
        if name in found or has(name):
            continue
        content = get(name)
        left -= len(content or b"")
        if content is None or left < 0 or len(found) > _LONGEST_CHAIN:
            if name == commit:
                return False
            raise StoreFault(
                f"commit {name[:12]}, on which {commit[:12]} builds, is neither here nor in the store: fetch it "
                "from the remote of the clone that made it"
            )
        found[name] = read_bundle(content, name)
        wanted += found[name].bases
    for name, bundle in _bases_first(found, commit):
        _unpack(git, name, bundle)
    return True


def _bases_first(found: dict[str, CommitBundle], commit: str) -> list[tuple[str, CommitBundle]]:
    order: dict[str, None] = {}
    path = [commit]
    while path:
        open_bases = [base for base in found[path[-1]].bases if base in found and base not in order]
        if not open_bases:
            order[path.pop()] = None
        elif open_bases[0] in path:
            raise _damage(commit)
        else:
            path.append(open_bases[0])
    return [(name, found[name]) for name in order]


def _unpack(git: GitCommand, name: str, bundle: CommitBundle) -> None:
    size = f"--max-input-size={LARGEST_BUNDLE}"
    try:
        if bundle.bases and bundle.objects <= _MOST_LOOSE:
            git.run("unpack-objects", "-q", "--strict", size, stdin=bundle.pack)
        else:  # the user's own history, in which git's strict check finds harmless faults of old versions
            git.run("index-pack", "--stdin", size, stdin=bundle.pack)
        question = "".join((f"{name}\n", *(f"^{base}\n" for base in bundle.bases))).encode()
        git.run("rev-list", "--objects", "--quiet", "--stdin", stdin=question)
    except GitError:
        raise _damage(name) from None


def has_commit(git: GitCommand, name: str) -> bool:
    """Say whether the commit is in this repository; git asks no server for it."""
    with contextlib.suppress(GitError):
        git.run("cat-file", "-e", f"{name}^{{commit}}", env={"GIT_NO_LAZY_FETCH": "1"})
        return True
    return False


def _damage(commit: str) -> StoreFault:
    return StoreFault(
        f"what the store has as commit {commit[:12]} is damaged, or not what the ledger names: remove "
        f"commits/{commit} there, and let the clone that made it send it again (`loopty config ledger --send`)"
    )
