"""Make the commits of nodes and let git keep them as loopty does, inside loopty's own environment.

Called as `python loopty_nodes.py refs|branches COUNT` in a repository with `src0/file0.py`. `branches` gives each
node a branch, as `git config loopty.branches true` does, and leaves its objects loose.
"""

import sys
from pathlib import Path

from loopty.git.repository import Repository
from loopty.workspaces.node_refs import NodeRefs


def main(kind: str, count: int) -> None:
    repository = Repository.open(Path.cwd())
    refs, base = NodeRefs(repository), repository.head().commit
    modes = repository.entries(base, ["src0/file0.py"])
    for number in range(count):
        edits = {"src0/file0.py": f"VALUE = {-number}\n"}
        commit = repository.commit(base, edits, modes, f"mutate: {number}\n").commit
        if kind == "branches":
            repository.refs.make_branch(f"loopty-1.{number + 1}", commit)
        else:
            refs.hold(1, [commit])
    if kind == "refs":
        refs.finish_packs(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
