"""Drive loopty as the host of a coding agent does: by MCP, through the resident process."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cost import Cost
from samples import descendants_cpu_seconds, tree_cpu_seconds


class LooptyAgent:
    """An agent with its MCP server. A resident process must run in the repository."""

    def __init__(self, executable: str, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._server = subprocess.Popen(
            [executable, "mcp"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._asked = 0
        self._experiments = 0
        self._ask("initialize", {"protocolVersion": "2025-06-18", "clientInfo": {"name": "benchmark"}})
        self.start_cost = Cost(tree_cpu_seconds(self._server.pid), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.communicate()

    def experiment(self) -> Cost:
        """Open a draft, edit it (not counted), submit it and wait; the CPU of everything that took part."""
        before = descendants_cpu_seconds()
        self._experiments += 1
        node = self._call("open", parent="1", hypothesis=f"change {self._experiments}").split()[1]
        (self._folder / ".loopty" / "drafts" / node / "src0/file0.py").write_text(
            f"VALUE = {-self._experiments}\n"
        )
        text = self._call("submit", id=node)
        while "still running" in text:
            text = self._call("wait", ticket=node)
        if node not in text:
            raise RuntimeError(text)
        return Cost(descendants_cpu_seconds() - before, 0)

    def _call(self, tool: str, **arguments: str) -> str:
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        text: str = answer["content"][0]["text"]
        return text

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        assert self._server.stdin
        assert self._server.stdout
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._server.stdin.write(json.dumps(message) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())["result"]
