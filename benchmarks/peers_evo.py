"""Drive evo without a person, an agent or a network."""

import contextlib
import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cost import Cost, measure_cost, run_for_output

_NOOP_BENCHMARK = """sh -c 'echo "{\\"score\\": 1}" > $EVO_RESULT_PATH'"""


class Evo:
    """evo in one repository."""

    def __init__(self, executable: Path, repository: Path, env: Mapping[str, str]) -> None:
        self._evo = str(executable)
        self._repository = repository
        self._env = env
        self._experiments = 0

    def init(self) -> None:
        """Initialise, and stop the dashboard that this starts: it is not part of the comparison."""
        task = ["--target", "src0/file0.py", "--benchmark", _NOOP_BENCHMARK, "--metric", "max"]
        host = ["--host", "generic", "--per-exp-timeout", "60"]
        printed = run_for_output([self._evo, "init", *task, *host], self._repository, self._env)
        if dashboard := re.search(r"supervisor pid (\d+)", printed):
            _kill(int(dashboard[1]))

    def new_and_run(self) -> Cost:
        """Run one experiment and return its cost: a worktree, an edit that is not counted, and the benchmark."""
        name = f"exp_{self._experiments:04d}"
        self._experiments += 1
        cost_of_new = self.verb("new", "--parent", "root", "-m", "bench")
        worktree = self._repository / ".evo" / "run_0000" / "worktrees" / name
        (worktree / "src0" / "file0.py").write_text(f"VALUE = {-self._experiments}\n")
        return cost_of_new + self.verb("run", name)

    def verb(self, *words: str) -> Cost:
        return measure_cost([self._evo, *words], self._repository, self._env)

    def lengthen_record(self, shape: str, count: int) -> None:
        """Replace the record with `count` copies of the first experiment, as a `chain` or as `siblings`."""
        path = self._repository / ".evo" / "run_0000" / "graph.json"
        graph: dict[str, Any] = json.loads(path.read_text())
        root, template = graph["nodes"]["root"], graph["nodes"]["exp_0000"]
        names = [f"exp_{number:04d}" for number in range(count)]
        if shape == "chain":
            parents = dict(zip(names, ["root", *names], strict=False))
            children = {parent: [name] for name, parent in parents.items()}
        else:
            parents = dict.fromkeys(names, "root")
            children = {"root": names}
        nodes = {"root": root | {"children": children["root"]}}
        for name in names:
            nodes[name] = template | {"id": name, "parent": parents[name], "children": children.get(name, [])}
        path.write_text(json.dumps(graph | {"nodes": nodes, "next_id": count}, indent=2))


def _kill(supervisor: int) -> None:
    """Kill the dashboard and its children. A polite request could hang: the dashboard may not listen yet."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    for pid in (supervisor, *map(int, children)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in (supervisor, *map(int, children)):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
