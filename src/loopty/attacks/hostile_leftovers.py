"""Attacks on the code that reads a trial's leftovers: links, pipes, devices, a planted .git."""

from __future__ import annotations

from loopty.attacks import host_side
from loopty.attacks.attack import BOUNDS, Attack
from loopty.attacks.threats import Threat
from loopty.kit.records import replace

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

ATTACKS = (
    *(
        Attack(
            name,
            Threat.HARVEST,
            None,
            script,
            replace(BOUNDS, disk_mb=64),
            after=host_side.process_leftovers,
        )
        for name, script in _LEFTOVERS.items()
    ),
    Attack("leave a .git that starts programs", Threat.GIT, None, _GIT, after=host_side.process_leftovers),
)
