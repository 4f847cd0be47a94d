"""The verbs: what each is for, and the module that it is imported from when it is called."""

from __future__ import annotations

from keyword import iskeyword

# Verb → what it does, in the order of `loopty --help`. Each verb is the module of its name in this folder.
VERBS = {
    "init": "Write loopty.toml, and run the benchmark once to check it.",
    "optimize": "Run experiments until the budget is spent; run it again to resume.",
    "worker": "Run trials of a campaign that another machine drives.",
    "dashboard": "Show the experiments in your browser, live, and act on them.",
    "status": "Show where the run stands.",
    "context": "Say what to know before the next experiment, in few words.",
    "tree": "Show the tree of experiments.",
    "report": "Chart the scores and list the best nodes.",
    "spend": "Show what models cost, by role, model, operator and node.",
    "best": "Print the best node.",
    "show": "Show everything about a node.",
    "diff": "Show what a node changed.",
    "new": "Make a node by hand: a folder with its files to edit.",
    "try": "Run any command on a node's files, in the sandbox, unrecorded.",
    "drop": "Give up a draft.",
    "run": "Run a node made by hand; --check only tries the benchmark.",
    "accept": "Keep a node that was held because its gain is too good.",
    "replay": "Measure a node or an artifact again and compare.",
    "audit": "Score nodes on the held-out split that the search never sees.",
    "ab": "Compare task files as arms, on the same budget.",
    "direct": "Tell the models what to try and what to avoid.",
    "pause": "Let nothing new start in the run; what runs goes on.",
    "resume": "End the pause.",
    "stop": "End the session that drives the run, wherever it runs.",
    "budget": "Show or change what the run may spend.",
    "gate": "Add, list and check conditions that a node must meet.",
    "discard": "Take back that a node was kept.",
    "invalidate": "Reject a node that cheats, with its descendants.",
    "restore": "Take a discard or an invalidation back.",
    "remeasure": "Judge nodes again that lost only against a withdrawn one.",
    "rebaseline": "Measure baseline and best node here, to continue a run.",
    "export": "Pack a node for any machine, or write all trials as a table.",
    "trust": "Allow what a task file asks for beyond the default.",
    "ledger": "Show or choose where the record of this repository is kept.",
    "gc": "Remove the files of discarded nodes.",
    "branch": "Make a git branch of a node, as it was measured.",
    "apply": "Bring a node's change to your own branch.",
    "pr": "Prepare a pull request: a branch, and what to say about it.",
    "models": "List the models, try one, or fetch one that needs no key.",
    "merge": "Make a draft with the changes of two nodes.",
    "abort": "End a ticket, or give up what a node waits for.",
    "tool": "Call a tool of coding agents from a shell.",
    "mcp": "Serve the tools to a coding agent, by MCP on standard input.",
    "notify": "Show where notices of a run go, and try whether they arrive.",
    "mode": "Show or set how a coding agent works here.",
    "hook": "Answer a hook of a coding agent's host.",
    "install": "Let coding agents in a host drive loopty: tools and skills.",
    "uninstall": "Remove from a host what install added.",
    "doctor": "Check what works on this machine, and how to fix the rest.",
}
FOR_PROGRAMS = ("hook",)
"""Verbs that people do not call."""


_NAMED_ELSEWHERE = ("budget", "context", "dashboard", "ledger")
"""Verbs that have the name of a module of another room: no two modules share one."""


def verb_module(verb: str) -> str:
    """The module of a verb. An underscore follows a word of Python's own, and a name that another module has."""
    return f"loopty.cli.{verb}{'_' if iskeyword(verb) or verb in _NAMED_ELSEWHERE else ''}"
