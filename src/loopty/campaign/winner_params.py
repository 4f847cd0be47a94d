"""Apply, for parameters: write those of a node to a JSON file of the user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from loopty.campaign.context import Say
from loopty.campaign.queries import task_or_none
from loopty.campaign.saved_record import SavedRecord
from loopty.campaign.winner_branch import applicable_node
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.space import Value
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder

_LARGEST_FILE = 16 << 20


class WinnerParams(Record):
    """The parameters of a node, and the file that has them now."""

    node: NodeId
    params: Mapping[str, Value]
    path: Path | None
    """None where neither the task nor the user names a file."""


def write_params(record: SavedRecord, node: NodeId, to: Path | None, say: Say) -> WinnerParams:
    """Write the node's parameters to `to`, by default to the file that the task names; its other keys stay."""
    found, _ = applicable_node(record, node, say)
    if not found.params:
        raise Misuse(f"{found.name} has no parameters: `loopty apply {found.name}` brings its files to a branch")
    file = _file(record.state.top, to)
    if file is None:
        return WinnerParams(node, found.params, None)
    content = {**_present_content(file), **found.params}
    file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
    return WinnerParams(node, found.params, file.shown_path)


def _file(top: Path, to: Path | None) -> SafeFile | None:
    """The file to write: the user's choice, else the task's, which lies inside the repository."""
    if to is not None:
        path = to.absolute()
        return SafeFolder(path.parent).file(path.name)
    task = task_or_none(top)
    if task is None or not task.parameters_file:
        return None
    *folders, name = PurePosixPath(task.parameters_file).parts
    return SafeFolder(top).below(*folders).file(name)


def _present_content(file: SafeFile) -> dict[str, object]:
    try:
        content = json.loads(file.read(_LARGEST_FILE))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Misuse(f"{file.shown_path} holds no JSON object to add the parameters to: name another with --to")
    return content
