"""Loopty's own files are reached through safe folders alone: the source is searched for any other way.

`StateFolder` hands out safe folders and files, which no call that opens paths accepts (strict typing checks that).
Their paths can be had for messages (`shown_path`), and for programs that take nothing else (`path_for_programs`,
which walks by handle first); the second kind of use is listed here, with its reason.
"""

import ast
import typing
from pathlib import Path

import loopty
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.workspaces.state_folder import StateFolder

SOURCE = Path(loopty.__file__).parent
PROGRAMS = {
    "features/agents/launcher.py": "a sandbox mounts the agent's home and writes its output",
    "features/agents/hosts/hooks.py": "only the times of files are read, those of links as such",
    "features/agents/one_session.py": "a sandbox mounts the tree",
    "features/sharing/artifacts.py": "an artifact is written wherever the user says",
    "evaluators/benchmark_runner.py": "a sandbox writes the output of a command, and follows no link there",
    "evaluators/candidate_server.py": "the same",
    "evaluators/counting.py": "a sandbox mounts the pipe of the counter",
    "features/fleet/door.py": "OpenSSL reads the certificate and its key by their paths",
    "kit/sockets.py": "a sandbox mounts the socket",
    "ledgers/sqlite.py": "SQLite opens paths; it follows no link there either",
    "features/agents/trees.py": "a sandbox mounts the folders; git says which files it ignores",
    "workspaces/rebuildable_folders.py": "cp copies directories; a sandbox mounts the copies",
    "workspaces/drafts.py": "git checks the files of a draft out",
    "workspaces/node_folders.py": "SQLite opens paths; it follows no link there either",
    "workspaces/overlay.py": "a sandbox mounts the folders",
    "workspaces/exports.py": "git checks the files of an export out, and seals compare them",
    "workspaces/stages.py": "a sandbox mounts the folders",
}
NAMES = {
    "domain/access.py": "no proposal may change the folder",
    "git/folders.py": "defines the name",
}
OPENS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "makedirs", "touch", "chmod"),
    *("chown", "utime", "unlink", "rename", "replace", "rmdir", "rmtree", "iterdir", "glob", "rglob", "walk"),
    *("scandir", "listdir", "symlink_to", "symlink", "link", "truncate", "copy", "copy2", "copyfile", "copytree"),
    *("move", "remove"),
}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())


def attributes_in(tree, *names):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in names]


def test_the_state_folder_hands_out_no_path_but_the_top():
    members = {name: member for name, member in vars(StateFolder).items() if not name.startswith("_")}
    returned = {}
    for name, member in members.items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if callable(function):
            returned[name] = typing.get_type_hints(function).get("return")
    assert set(returned.values()) <= {SafeFolder, SafeFile, StateFolder, str, bool, type(None)}
    given = {"given_ledger": str, "given_store": str}
    assert typing.get_type_hints(StateFolder) == {"top": Path, "home": SafeFolder, **given}


def test_paths_for_programs_are_asked_for_only_where_a_program_needs_one():
    using = {name for name, tree in modules() if attributes_in(tree, "path_for_programs")}
    assert using == set(PROGRAMS)


def test_no_path_of_a_safe_folder_is_opened():
    for name, tree in modules():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            function = call.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called not in OPENS:
                continue
            receivers = [function.value] if isinstance(function, ast.Attribute) else []
            for part in (*receivers, *call.args, *(keyword.value for keyword in call.keywords)):
                inside = attributes_in(part, "shown_path", "path_for_programs")
                assert not inside or name == "kit/safe_folder.py", f"{name}:{call.lineno} opens a path by its name"


def test_the_folder_in_the_working_tree_is_named_in_one_place():
    for name, tree in modules():
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        named = [node.lineno for node in texts if node.value == ".loopty" or node.value.startswith(".loopty/")]
        assert not named or name in NAMES, f"{name}: lines {named}"
