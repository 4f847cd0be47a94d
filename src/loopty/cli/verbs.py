"""The verbs: what each is for, and the module that it is imported from when it is called."""

from __future__ import annotations

# Verb → what it does, in the order of `loopty --help`. `verb_place` says where it is.
GROUPS = {
    "Every day": {
        "init": "Write loopty.toml, and run the benchmark once to check it.",
        "evolve": "Evolve a program against an evaluator of another tool.",
        "optimize": "Run experiments until the budget is spent; resumes, too.",
        "status": "Show where the run stands.",
        "pause": "Stop starting trials; let running ones finish.",
        "resume": "End the pause.",
        "stop": "End the session that drives the run, wherever it runs.",
        "tree": "Show the tree of experiments.",
        "show": "Show everything about a node.",
        "diff": "Show what a node changed.",
        "report": "Chart the scores and list the best nodes.",
        "best": "Print the best node.",
        "apply": "Bring a node's change to your own branch.",
        "dashboard": "Show the experiments in your browser, live, and act on them.",
        "doctor": "Check what works on this machine, and how to fix the rest.",
    },
    "Changes by hand": {
        "new": "Make a node by hand: a folder with its files to edit.",
        "try": "Run any command on a node's files, in the sandbox, unrecorded.",
        "run": "Run a node made by hand; --check only tries the benchmark.",
        "merge": "Make a draft with the changes of two nodes.",
        "drop": "Give up a draft.",
    },
    "Verdicts": {
        "accept": "Keep a node that was held because its gain is too good.",
        "discard": "Take back that a node was kept.",
        "invalidate": "Reject a node that cheats, with its descendants.",
        "restore": "Take a discard or an invalidation back.",
        "remeasure": "Judge nodes again that lost only against a withdrawn one.",
        "gate": "Add, list and check conditions that a node must meet.",
    },
    "Measurements": {
        "replay": "Measure a node or an artifact again and compare.",
        "audit": "Score nodes on the held-out split that the search never sees.",
        "rebaseline": "Measure baseline and best node here, to continue a run.",
        "ab": "Compare task files as arms, on the same budget.",
    },
    "Budget and models": {
        "budget": "Show or change what the run may spend.",
        "spend": "Show what models cost, by role, model, operator and node.",
        "direct": "Tell the models what to try and what to avoid.",
        "models": "List the models of this task, and try one.",
    },
    "Results for others": {
        "branch": "Make a git branch of a node, as it was measured.",
        "pr": "Prepare a pull request: a branch, and what to say about it.",
        "export": "Pack a node for any machine, or write all trials as a table.",
    },
    "Coding agents": {
        "install": "Let coding agents in a host drive loopty: tools and skills.",
        "uninstall": "Remove from a host what install added.",
        "mode": "Show or set how a coding agent works here.",
        "context": "Say what to know before the next experiment, in few words.",
        "tool": "Call a tool of coding agents from a shell.",
        "mcp": "Serve the tools to a coding agent, by MCP on standard input.",
        "abort": "End a ticket, or give up what a node waits for.",
        "hook": "Answer a hook of a coding agent's host.",
    },
    "This machine and others": {
        "trust": "Allow what a task file asks for beyond the default.",
        "notify": "Show where notices of a run go, and try whether they arrive.",
        "ledger": "Show or choose where the record of this repository is kept.",
        "worker": "Run trials of a campaign that another machine drives.",
        "gc": "Remove the files of discarded nodes.",
    },
}
VERBS = {verb: words for group in GROUPS.values() for verb, words in group.items()}
FOR_PROGRAMS = ("hook",)
"""Verbs that people do not call."""


_FILES = {
    "budget": ("budget", "spend", "direct", "models"),
    "drafts": ("new", "try", "run", "merge", "drop"),
    "hosts": ("install", "uninstall", "mode", "hook"),
    "machine": ("trust", "notify", "ledger", "worker", "gc"),
    "measurements": ("replay", "audit", "rebaseline", "ab"),
    "nodes": ("tree", "show", "diff"),
    "report": ("status", "best", "report"),
    "results": ("apply", "branch", "pr", "export"),
    "running": ("pause", "resume", "stop", "abort"),
    "tools": ("tool", "mcp", "context"),
    "verdicts": ("accept", "discard", "invalidate", "restore", "remeasure"),
}
"""Verbs by the file that they share; every other has a file of its name."""
_FILE = {verb: file for file, verbs in _FILES.items() for verb in verbs}


def verb_place(verb: str) -> str:
    """Say where a verb is, as `module:name`."""
    return f"loopty.cli.{_FILE.get(verb, verb)}:{verb}_verb"
