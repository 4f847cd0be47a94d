"""Attacks on the code that reads a trial's leftovers or a clone: links, pipes, devices, a planted .git."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from loopty.domain.access import Access
from loopty.domain.errors import LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Edits
from loopty.evaluators import harvest
from loopty.evaluators.metrics import MetricsStream
from loopty.evaluators.result import LARGEST_RESULT
from loopty.features.attacks.arena import Arena, paths_below
from loopty.features.attacks.attack import BOUNDS, Attack, Threat
from loopty.git.folders import GitFolders
from loopty.git.repository import Repository
from loopty.kit import untrusted_files
from loopty.kit.process import trial_owner
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.untrusted_files import Unreadable
from loopty.workspaces import drafts
from loopty.workspaces.node_folders import NodeFolders
from loopty.workspaces.state_folder import StateFolder

_MOST_MB = 200
"""Other attacks run in this process at the same time, and take some, too."""
_SOMEONE = ("-c", "user.name=someone", "-c", "user.email=someone@localhost", "-c", "core.hooksPath=/dev/null")


def process_leftovers(arena: Arena) -> None:
    """Take result, metrics and traces out of the outbox, make a node of its draft, remove the outbox."""
    limit_memory(_take_outputs, arena)
    _harvest_draft(arena)
    SafeFolder(arena.outbox.parent).remove(arena.outbox.name)
    if arena.outbox.exists():
        raise RuntimeError("the outbox could not be removed")
    arena.outbox.mkdir()


def limit_memory(action: Callable[[Arena], None], arena: Arena) -> None:
    """Do something with the leftovers. Raises MemoryError when this process needs much memory for it."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = _peak_mb()
    action(arena)
    if (taken := _peak_mb() - before) > _MOST_MB:
        raise MemoryError(f"reading the leftovers took {taken} MB")


def _peak_mb() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) >> 10


def _take_outputs(arena: Arena) -> None:
    owner = trial_owner()
    outbox = SafeFolder(arena.outbox).written_by(owner[0] if owner else None)
    harvest_folder = SafeFolder(arena.harvest_folder)
    with contextlib.suppress(Unreadable):
        raw = untrusted_files.content(arena.outbox / "result.json", LARGEST_RESULT)
        harvest_folder.file("result.json").write(raw or b"")
    with contextlib.suppress(Unreadable):
        MetricsStream(outbox.file("metrics.csv"), copy=harvest_folder.file("metrics.csv")).read_new()
    harvest.TraceCopies(outbox.below("traces"), harvest_folder.below("traces")).copy_new()


def _harvest_draft(arena: Arena) -> None:
    left, draft = arena.outbox / "draft", arena.draft
    if not left.is_dir():
        return
    draft.parent.mkdir()
    left.rename(draft)
    layout = SafeFolder(draft.parent).file(f"{draft.name}.json")
    layout.write(b"{}")
    for path in (draft, *paths_below(draft)):
        # Git refuses a repository of another user; a draft belongs to the user.
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
    with contextlib.suppress(LooptyError):
        edits = drafts.edits_in(SafeFolder(draft), layout)
        for path_inside, content in edits.items():
            *above, name = Path(path_inside).parts
            copy = SafeFolder(arena.harvest_folder, tuple(above)).file(name)
            copy.write(content if isinstance(content, bytes) else b"")
        if Access(write=("**",)).refusal(edits) is None:
            _use_every_verb(Repository.open(_fresh_repository(arena.root / "repository")), edits)
    with contextlib.suppress(LooptyError):
        # As if somebody started loopty inside the draft.
        _use_every_verb(Repository.open(draft), {"new": "new"})


def _fresh_repository(top: Path) -> Path:
    top.mkdir()
    (top / "file").touch()
    commit_all(top)
    return top


def commit_all(top: Path) -> None:
    """Make a repository of a folder and commit its files, ignored ones too."""
    for words in (["init", "-q"], ["add", "--force", "--all"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *_SOMEONE, *words], cwd=top, check=True, capture_output=True)


def _use_every_verb(repository: Repository, edits: Edits) -> None:
    before = repository.head().commit
    repository.working_tree.snapshot("as it is")
    made = repository.commit(before, edits, {}, "harvested").commit
    repository.refs.make_branch("harvested", made)
    repository.patches.between(before, made)


_AT_EVERY_OUTPUT = """
import socket, stat
os.mkdir(OUT + "/traces")
os.mkdir(OUT + "/draft")
secret = HOST["hidden"] + "/secret"
for path in (OUT + place for place in ("/result.json", "/metrics.csv", "/traces/task_1.json", "/draft/file")):
    {}
"""

_LEFTOVERS = {
    "leave links to a secret": _AT_EVERY_OUTPUT.format("os.symlink(secret, path)"),
    "leave links to an endless file": _AT_EVERY_OUTPUT.format("os.symlink('/dev/zero', path)"),
    "leave pipes that nobody writes to": _AT_EVERY_OUTPUT.format("os.mkfifo(path)"),
    # The only device that every user may make; a real one needs root.
    "leave devices": _AT_EVERY_OUTPUT.format("os.mknod(path, stat.S_IFCHR | 0o666, 0)"),
    "leave sockets": _AT_EVERY_OUTPUT.format("socket.socket(socket.AF_UNIX).bind(path)"),
    "leave directories where files are due": _AT_EVERY_OUTPUT.format("os.mkdir(path)"),
    "leave folders that are links": """
os.symlink(HOST["hidden"] + "/traces", OUT + "/traces")
os.mkdir(OUT + "/draft")
os.symlink(HOST["hidden"], OUT + "/draft/folder")
""",
    "leave file names with special characters": """
os.mkdir(OUT + "/traces")
os.mkdir(OUT + "/draft")
for name in ("a\\nb", "\\x1b[31m", "-rf", "a b", '"', "\\udcff", "x" * 240):
    for place in ("/traces/task_%s.json", "/draft/%s"):
        with open(OUT + place % name, "w") as file:
            file.write("{}")
""",
    "leave metrics that take much memory to read": """
with open(OUT + "/metrics.csv", "w") as file:
    file.write("iteration,loss\\n" + "1,2\\n" * (4 << 20))
""",
    "leave folders too deep to remove": """
# In parts shallow enough for any watcher, which are then moved into each other.
parts = [OUT + "/part%d" % number for number in range(16)]
for part in parts:
    os.makedirs(part + "/deep" * 90)
for above, part in zip(reversed(parts[:-1]), reversed(parts[1:])):
    os.rename(part, above + "/deep" * 90 + "/next")
""",
    "leave folders that forbid their own removal": """
os.makedirs(OUT + "/closed/inside")
os.chmod(OUT + "/closed/inside", 0)
os.chmod(OUT + "/closed", 0)
""",
}

# Every program that git is known to start when it reads a repository or commits to it, except filters: those
# belong to the user's own settings.
_GIT = """
import hashlib, zlib
git = OUT + "/draft/.git"
for folder in ("/objects", "/refs/heads", "/hooks"):
    os.makedirs(git + folder)

def store(kind, content):
    raw = b"%s %d\\0" % (kind, len(content)) + content
    name = hashlib.sha1(raw).hexdigest()
    os.makedirs(git + "/objects/" + name[:2], exist_ok=True)
    with open(git + "/objects/" + name[:2] + "/" + name[2:], "wb") as file:
        file.write(zlib.compress(raw))
    return name

def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)

program = "#!/bin/sh\\necho here >> " + HOST["hidden"] + "/started\\n"
write(OUT + "/draft/program", program)
for hook in ("reference-transaction", "post-index-change", "pre-commit", "post-commit", "post-checkout"):
    write(git + "/hooks/" + hook, program)
tree = store(b"tree", b"")
who = "a <a@a> 0 +0000"
text = "tree %s\\nauthor %s\\ncommitter %s\\n\\nplanted\\n" % (tree, who, who)
write(git + "/refs/heads/main", store(b"commit", text.encode()) + "\\n")
write(git + "/HEAD", "ref: refs/heads/main\\n")
write(OUT + "/draft/.gitattributes", "* diff=any\\n")
write(git + "/config", '''[core]
    repositoryformatversion = 0
    fsmonitor = PROGRAM
    hooksPath = .git/hooks
    pager = PROGRAM
    editor = PROGRAM
    sshCommand = PROGRAM
    alternateRefsCommand = PROGRAM
[diff]
    external = PROGRAM
[diff "any"]
    command = PROGRAM
    textconv = PROGRAM
[commit]
    gpgSign = true
[gpg]
    program = PROGRAM
[pager]
    diff = PROGRAM
'''.replace("PROGRAM", HOST["draft"] + "/program"))
"""

HOSTILE_LEFTOVERS = (
    *(
        Attack(
            name,
            Threat.HARVEST,
            None,
            script,
            replace(BOUNDS, disk_mb=64),
            after=process_leftovers,
        )
        for name, script in _LEFTOVERS.items()
    ),
    Attack("leave a .git that starts programs", Threat.GIT, None, _GIT, after=process_leftovers),
)


_LINKS = {
    "bring a link as loopty's folder": 'link("", "")',
    "bring a link as the folder of a node": 'link("/nodes/1", "")',
    "bring a link as a file of a node": 'link("/nodes/1/result.json", "/ledger.sqlite")',
    "bring a link as the folder of drafts": 'link("/drafts", "")',
}
_SCRIPT = """
def link(name, target):
    path = OUT + "/clone/.loopty" + name
    os.makedirs(os.path.dirname(path))
    os.symlink(HOST["hidden"] + target, path)

{}
"""


def use_clone(arena: Arena) -> None:
    """Do in a clone what loopty does with its own folder there: refuse it, write to it, empty it."""
    top = arena.root / "clone"
    (arena.outbox / "clone").rename(top)
    os.chown(top, os.geteuid(), os.getegid())
    commit_all(top)
    if Repository.open(top).working_tree.foreign_state_path() is None:
        raise RuntimeError("files of the clone in loopty's folder were not noticed")
    state, node = StateFolder.of(GitFolders.find(top)), NodeId("1")
    with contextlib.suppress(LooptyError):
        state.prepare()
    with contextlib.suppress(OSError):
        state.node_folder(node).file("result.json").write(b"forged")
        NodeFolders(state).lay_out(node, {})
    with contextlib.suppress(OSError):
        state.draft_folder(node).make().file("file").write(b"forged")
    with contextlib.suppress(OSError):
        state.node_copy(node).remove_all()


CLONE_LINKS = tuple(
    Attack(name, Threat.CLONE, None, _SCRIPT.format(script), after=use_clone) for name, script in _LINKS.items()
)
