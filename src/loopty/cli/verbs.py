"""The verbs: what each is for, and where it is imported from when it is called.

What people type every day stands alone; the rest is found in groups. A group's verb is written `group verb`.
"""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb of the command line."""

    file: str
    """The module of `loopty.cli` that has it."""
    help: str


class Group(NamedTuple):
    """Verbs that belong together."""

    help: str
    verbs: dict[str, Verb]
    more: str = ""
    """What else its own help says."""
    usual: str = ""
    """The verb that was probably meant where none is named."""


EVERY_DAY = {
    "init": Verb("init", "Write loopty.toml, and run the benchmark once to check it."),
    "evolve": Verb("evolve", "Evolve a program against an evaluator of another tool."),
    "run": Verb("run", "Run experiments until the budget is spent; resumes, too."),
    "status": Verb("report", "Show where the run stands."),
    "pause": Verb("running", "Stop starting trials; let running ones finish."),
    "resume": Verb("running", "Continue after a pause or Ctrl-C."),
    "stop": Verb("running", "End the session that drives the run, wherever it runs."),
    "tree": Verb("nodes", "Show the tree of experiments."),
    "show": Verb("nodes", "Show everything about a node."),
    "diff": Verb("nodes", "Show what a node changed."),
    "report": Verb("report", "Chart the scores and list the best nodes."),
    "best": Verb("report", "Print the best node."),
    "apply": Verb("results", "Bring a node's change to your own branch."),
    "dashboard": Verb("dashboard", "Show the experiments in your browser, live, and act on them."),
    "doctor": Verb("doctor", "Check what works on this machine, and how to fix the rest."),
}
GROUPS = {
    "draft": Group(
        "Changes by hand",
        {
            "new": Verb("drafts", "Make a node by hand: a folder with its files to edit."),
            "try": Verb("drafts", "Run any command on a node's files, in the sandbox, unrecorded."),
            "submit": Verb("drafts", "Measure a draft and judge it."),
            "merge": Verb("drafts", "Make a draft with the changes of two nodes."),
            "drop": Verb("drafts", "Give up a draft."),
        },
    ),
    "node": Group(
        "Verdicts",
        {
            "approve": Verb("verdicts", "Approve a result held for review (suspiciously large gain)."),
            "discard": Verb("verdicts", "Take back that a node was kept."),
            "reject": Verb("verdicts", "Reject a node that cheats, with its descendants."),
            "undo": Verb("verdicts", "Undo a discard or a rejection."),
            "recheck": Verb("verdicts", "Judge nodes again that lost only to a withdrawn one."),
        },
    ),
    "gate": Group(
        "Conditions that a node must meet",
        {
            "add": Verb("gate", "Add a gate to a node and its descendants."),
            "list": Verb("gate", "List the gates of the task and of nodes."),
            "check": Verb("gate", "Run the gates of a node, unrecorded."),
        },
        "A node that fails a gate is rejected, whatever its score. Gates of the whole task are in loopty.toml "
        "under [[gates]]. Gates added here apply to one node and all its descendants.",
    ),
    "measure": Group(
        "Measurements",
        {
            "replay": Verb("measurements", "Measure a node or an artifact again and compare."),
            "audit": Verb("measurements", "Score nodes on the held-out split that the search never sees."),
            "rebaseline": Verb("measurements", "Measure baseline and best node here, to continue a run."),
            "compare": Verb("measurements", "Compare task files as arms, on the same budget."),
        },
    ),
    "export": Group(
        "Results for others",
        {
            "node": Verb("results", "Pack a node for any machine."),
            "branch": Verb("results", "Make a git branch of a node, as it was measured."),
            "pr": Verb("results", "Prepare a pull request: a branch, and what to say about it."),
            "trials": Verb("exports", "Write all trials as a table."),
            "mlflow": Verb("exports", "Send the trials to MLflow."),
            "wandb": Verb("exports", "Send the trials to Weights & Biases."),
            "otlp": Verb("exports", "Send trials and model calls as spans to OpenTelemetry."),
        },
        usual="node",
    ),
    "model": Group(
        "Models and what they cost",
        {
            "list": Verb("models", "List the models of this task."),
            "ask": Verb("models", "Send a model one tiny request."),
            "cost": Verb("models", "Show what models cost, by role, model, operator and node."),
            "direct": Verb("models", "Tell the models what to try and what to avoid."),
        },
    ),
    "agent": Group(
        "Coding agents",
        {
            "install": Verb("hosts", "Let coding agents in a host drive loopty: tools and skills."),
            "uninstall": Verb("hosts", "Remove from a host what install added."),
            "mode": Verb("hosts", "Show or set how a coding agent works here."),
            "context": Verb("tools", "Say what to know before the next experiment, in few words."),
            "tool": Verb("tools", "Call a tool of coding agents from a shell."),
            "mcp": Verb("tools", "Serve the tools to a coding agent, by MCP on standard input."),
            "abort": Verb("running", "End a ticket, or give up what a node waits for."),
        },
        "Agents and hosts write `loopty tool` and `loopty mcp`, which are the same.",
    ),
    "config": Group(
        "Settings of this repository",
        {
            "budget": Verb("machine", "Show or change what the run may spend."),
            "trust": Verb("machine", "Allow what a task file asks for beyond the default."),
            "ledger": Verb("machine", "Show or choose where the record of this repository is kept."),
            "notify": Verb("machine", "Show where notices of a run go, and try whether they arrive."),
        },
    ),
    "system": Group(
        "This machine and others",
        {
            "worker": Verb("machine", "Run trials of a campaign that another machine drives."),
            "gc": Verb("machine", "Remove the files of discarded nodes."),
        },
    ),
}
FOR_PROGRAMS = {"hook": Verb("hosts", "Answer a hook of a coding agent's host.")}
"""Verbs that people do not call."""
_NEW = ("submit", "add", "check", "compare", "node", "trials", "mlflow", "wandb", "otlp", "list", "ask", "cost")
OLD_NAMES = {
    **{verb: f"{name} {verb}" for name, group in GROUPS.items() for verb in group.verbs if verb not in _NEW},
    "optimize": "run",
    "accept": "node approve",
    "invalidate": "node reject",
    "restore": "node undo",
    "remeasure": "node recheck",
    "ab": "measure compare",
    "models": "model list",
    "spend": "model cost",
}
"""Names from before the groups: they work, and no help lists them. Options of export and models became verbs."""
VERBS = {
    **EVERY_DAY,
    **{f"{name} {verb}": what for name, group in GROUPS.items() for verb, what in group.verbs.items()},
    **FOR_PROGRAMS,
}


def verb_place(verb: str) -> str:
    """Say where a verb is, as `module:name`."""
    return f"loopty.cli.{VERBS[verb].file}:{verb.rpartition(' ')[2]}_verb"
