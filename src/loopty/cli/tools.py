"""`loopty tool`, `mcp`, `context`: calls of coding agents, each answered by a process that outlives this one."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import click

from loopty.cli.output import NodeArgument, echo, here, json_option, print_json, say
from loopty.domain.ids import NodeId
from loopty.git.folders import GitFolders
from loopty.kit.process import run_detached
from loopty.tools.table import TOOLS, asks_for_help, tool_help
from loopty.workspaces.state_folder import StateFolder
from loopty_sdk.agent_tool import call_of_words

_CHUNK = 1 << 16
_KILLED = b'{"error": "the process that ran this was killed; what was recorded is safe: call again"}'


class ToolCall:
    """A call that is being answered. It can be waited for by its descriptor."""

    def __init__(self, reading: int) -> None:
        self._reading = reading
        self._parts: list[bytes] = []

    def fileno(self) -> int:
        return self._reading

    def read(self) -> bytes | None:
        """Read what has come: the reply when it is complete, else None."""
        if part := os.read(self._reading, _CHUNK):
            self._parts.append(part)
            return None
        os.close(self._reading)
        return b"".join(self._parts) or _KILLED


def start_call(folder: Path, call: bytes) -> ToolCall:
    """Let a process of its own answer a call in the repository around a folder."""
    # Before the fork: the next call need not import them.
    from loopty.features.agents.hosts.hooks import require_subagent_edits
    from loopty.tools.calls import answer_call

    reading, writing = os.pipe()

    def send(reply: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
            pipe.write(reply)

    def answer() -> None:
        try:
            answer_call(folder, call, send, require_subagent_edits)
        except Exception as error:  # its traceback goes nowhere, because a detached process has no terminal
            with contextlib.suppress(OSError):  # it may have been answered before
                send(json.dumps({"error": f"loopty failed ({type(error).__name__}: {error})"}).encode())
            raise

    run_detached(answer, kept=(writing,))
    os.close(writing)
    return ToolCall(reading)


def reply_to(folder: Path, call: bytes) -> bytes:
    """Answer a call, and wait for its reply."""
    started = start_call(folder, call)
    while (reply := started.read()) is None:
        pass
    return reply


@click.command("tool", context_settings={"help_option_names": [], "ignore_unknown_options": True})
@click.argument("name", required=False, metavar="TOOL")
@click.argument("words", nargs=-1, metavar="[ID] [KEY=VALUE… | JSON]")
@click.option("--mailbox", is_flag=True, help="Answer agents that write calls below .loopty/mail, until Ctrl-C.")
def tool_verb(name: str | None, words: tuple[str, ...], mailbox: bool) -> None:
    """Call a tool of agents from a shell; without a name, list the tools.

    `loopty tool NAME --help` lists the arguments: KEY=VALUE, and a word alone is the id; the reply is text. One
    JSON object, or `-` for one from standard input, is answered as JSON. Your client's name is $LOOPTY_CLIENT.
    Exits with 1 where the reply is an error.
    """
    if mailbox:
        _serve_mailbox()
        return
    if name in ("-h", "--help"):
        click.echo(click.get_current_context().get_help())
        return
    if name is None:
        click.echo("\n".join(f"{tool:<8} {entry.words}" for tool, entry in TOOLS.items()))
        return
    if asks_for_help(name, dict.fromkeys(words)):
        click.echo(tool_help(name))
        return
    reply = reply_to(Path.cwd(), call_of_words(name, list(words), os.environ.get("LOOPTY_CLIENT", "")))
    read = json.loads(reply)
    if words and (words[0] == "-" or words[0].lstrip().startswith("{")):
        sys.stdout.buffer.write(reply + b"\n")
    else:
        click.echo(read.get("error") or read.get("text", ""))
    sys.exit(1 if "error" in read else 0)


def _serve_mailbox() -> None:
    from loopty.tools.doors import Mailbox

    state = StateFolder.of(GitFolders.find(Path.cwd()))
    state.prepare()  # `.loopty/` must hide itself from git
    mailbox = Mailbox(state.work_folder)
    mailbox.open()
    say(f"answering calls in {mailbox.top}: agents run `python3 .loopty/tool context` there; Ctrl-C ends this")
    mailbox.serve(lambda call: start_call(mailbox.top, call))


@click.command("mcp")
@click.argument("folder", required=False)
def mcp_verb(folder: str | None) -> None:
    """Serve the tools to a coding agent, by the Model Context Protocol on standard input and output.

    The agent's host starts it, in the repository or with FOLDER.
    """
    from loopty.tools.doors import McpServer

    top = Path(folder or "").absolute()
    McpServer(os.environ.get("LOOPTY_CLIENT", ""), lambda call: start_call(top, call)).serve()


@click.command("context")
@click.option("--for", "node", type=NodeArgument(), metavar="NODE", help="Also say what is known about this node.")
@click.option(
    "--words",
    type=click.IntRange(60, 5_000),
    default=600,
    show_default=True,
    help="Never print more words.",
)
@json_option
def context_verb(node: NodeId | None, words: int, as_json: bool) -> None:
    """Print what to know before the next experiment, in a bounded number of words.

    In this order: the task, what an attempt costs, the best and the way to it, what could be merged, what failed,
    who works on what, weak tasks, notes, the directive, and advice. It takes the same time however long the run.
    """
    from loopty.show.search_context import context_sections, context_text

    campaign = here()
    context = campaign.search_context(node)
    sections = context_sections(context, words)
    if as_json:
        counted = sum(section.words for section in sections)
        rows = {section.name: list(section.lines) for section in sections}
        print_json({"run": context.status.run, "words": counted, "sections": rows})
        return
    echo(context_text(sections))
