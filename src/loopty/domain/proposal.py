"""A change as data: parameters, also those that a program declares, edits, or both; fit for the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from loopty.domain.declared_types import cut_words, misfit
from loopty.domain.ids import NodeId
from loopty.domain.space import Parameter, ParameterKind, Params, Space, Value
from loopty.domain.trial import Ending, Outcome
from loopty.kit import codec
from loopty.kit.contents import sha256
from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record, field, replace


class Directions(Record):
    """What a reviewer would try next. The record keeps it for later prompts, and the proposer is asked again."""

    text: str


# Replaying it calls no model.


Edits = Mapping[str, str | bytes | None]
"""New content by path; None deletes the file."""


BY_HAND = "hand"
"""The operator of a change that a person made."""
BY_AGENT = "agent"
"""The operator of a change that came through the tools for agents: no person has looked at it."""


class Proposal(Record):
    """The next experiment."""

    operator: str
    parent: NodeId
    summary: str
    params: Mapping[str, Value] = field(default_factory=dict)
    edits: Edits = field(default_factory=dict)
    inspirations: tuple[NodeId, ...] = ()
    """Other nodes that it builds on."""
    calls: tuple[str, ...] = ()
    """The model calls behind it; the last one returned it."""
    remaining_in_reply: int = 0
    """How many proposals follow it in the reply of the last call."""
    index_in_reply: int = 0
    """Its index among the proposals of the last call, from 0."""
    parent_reason: str = ""
    """Why its selector chose the parent."""
    arm_reason: str = ""
    """Why its operator and its model were chosen."""
    author: str = ""
    """The client that opened it; empty for a person or a proposer."""
    surface: str = ""
    """The part of the code that it is about, in the author's words."""
    merged: tuple[NodeId, ...] = ()
    """Further parents, whose changes it holds as well."""

    def as_refusal(self, reason: str, objection: Objection) -> Refusal:
        """Turn this proposal into a refusal: it gets no trial."""
        place = self.remaining_in_reply, self.index_in_reply
        return Refusal(self.operator, reason, objection, self.calls, *place, self.arm_reason)


class Objection(StrEnum):
    """Why a proposal gets no trial."""

    OTHER = "other"
    REPLY = "reply"
    """The model's reply held no readable proposal."""
    APPLY = "apply"
    """It does not fit the files."""
    FORBIDDEN = "forbidden"
    """It changes a protected path, or lies outside the space."""
    DUPLICATE = "duplicate"
    """The same, or nearly the same, was tried before."""


class Refusal(Record):
    """A proposal without a trial. It is recorded, and no attempt is charged."""

    operator: str
    reason: str
    objection: Objection = Objection.OTHER
    calls: tuple[str, ...] = ()
    remaining_in_reply: int = 0
    index_in_reply: int = 0
    arm_reason: str = ""
    """Why its operator and its model were chosen."""


class RungChange(Record):
    """A ladder goes to another rung."""

    rung: int
    name: str
    reason: str


class ProposerStall(Record):
    """A proposer did not get on. Its account is in the ledger; it is asked again, and no attempt is charged."""

    operator: str
    reason: str


Suggestion = Proposal | Refusal | RungChange | ProposerStall | Directions
"""A proposer's answer."""


def identity(tree: str, params: Params) -> str:
    """Compute a digest of files and parameters: two nodes with the same one are the same experiment."""
    return sha256(f"{tree} {codec.text(dict(sorted(params.items())))}".encode()).hexdigest()[:20]


# # loopty parameter: step = { type = "float", low = 0.1, high = 10.0, log = true, default = 1.0 }
#
# The table has the keys of `[parameters.NAME]` in the task file, without `when`. Whoever writes the program writes
# these lines, so nothing about them is trusted.


MARK = "loopty parameter:"
_LINE = re.compile(r"^[ \t]*(?:#+|//+|--|;+|%+|!|/\*+|\*|<!--)[ \t]*" + MARK + "(.*)$", re.MULTILINE)
"""A comment of any language that begins with the mark; prose about it is none."""
MOST_DECLARED = 12
_KEYS = {"type", "low", "high", "log", "step", "choices", "default"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_LONGEST_LINE = 600
_LONGEST_TEXT = 80
_MOST_CHOICES = 32
_SMALLEST, _LARGEST = 1e-12, 1e12
"""Sizes of numbers other than 0: with these no sum, quotient or logarithm overflows."""
_MOST_STEPS = 1e9


class DeclarationFault(ValueError):  # noqa: N818
    """What is wrong with a declaration, and how to fix it."""


class DeclaredParameter(Record):
    """A parameter, and the file that declares it."""

    path: str
    parameter: Parameter


Declared = Mapping[str, DeclaredParameter]


def declare_after(before: Declared, edits: Edits) -> dict[str, DeclaredParameter]:
    """Return what a program declares after these edits of its files. Raises DeclarationFault."""
    declared = {name: one for name, one in before.items() if one.path not in edits}
    for path, content in edits.items():
        for name, parameter in _declarations(path, content):
            if name in declared:
                raise DeclarationFault(
                    f"{path} declares parameter {name}, which {declared[name].path} declares already: "
                    "give it another name"
                )
            declared[name] = DeclaredParameter(path, parameter)
    if len(declared) > MOST_DECLARED:
        raise DeclarationFault(
            f"declares {len(declared)} parameters: keep the {MOST_DECLARED} that matter most, and fix the others"
        )
    return declared


def declaration_refusal(before: Declared, edits: Edits, space: Space) -> str | None:
    """Tell why the declarations in these edits are refused; `space` are the task's own parameters."""
    try:
        declared = declare_after(before, edits)
    except DeclarationFault as fault:
        return str(fault)
    taken = next((name for name in declared if name in space.parameters), None)
    return f"declares {taken}, which is a parameter of the task: give it another name" if taken else None


def complete_params(declared: Declared, given: Params) -> dict[str, Value]:
    """Complete the values, one for each declared parameter: the given one if it fits, else the default."""
    params = dict(given)
    for name, one in declared.items():
        if name not in given or not one.parameter.accepts(given[name]):
            params[name] = one.parameter.baseline
    return params


def carry_params(before: Declared, after: Declared, params: Params) -> dict[str, Value]:
    """Return the values of a program that declared `before` and declares `after` now."""
    return complete_params(after, {name: v for name, v in params.items() if name not in before or name in after})


def join_space(space: Space, declared: Declared) -> Space:
    """Join the task's parameters and the declared ones."""
    if not declared:
        return space
    return Space({**space.parameters, **{name: one.parameter for name, one in declared.items()}})


def _declarations(path: str, content: str | bytes | None) -> Iterator[tuple[str, Parameter]]:
    if not content or (MARK if isinstance(content, str) else MARK.encode()) not in content:  # type: ignore[operator]
        return
    text = content.decode(errors="replace") if isinstance(content, bytes) else content
    for found in _LINE.finditer(text):
        try:
            yield _declaration(found[1])
        except DeclarationFault as fault:
            line = text.count("\n", 0, found.start()) + 1
            raise DeclarationFault(f"{path}, line {line}: {fault}") from None


def _declaration(text: str) -> tuple[str, Parameter]:
    import tomllib  # here: most files declare nothing

    if len(text) > _LONGEST_LINE:
        raise DeclarationFault(f"the declaration has more than {_LONGEST_LINE} characters: make it shorter")
    body = text[: text.rindex("}") + 1] if "}" in text else text  # the end of a block comment may follow
    try:
        table = tomllib.loads(body.strip())
    except (ValueError, RecursionError):
        table = {}
    name, raw = next(iter(table.items()), ("", None))
    if len(table) != 1 or not isinstance(raw, dict) or not _NAME.fullmatch(name):
        raise DeclarationFault(
            f'a declaration is one line such as `{MARK} step = {{ type = "float", low = 0.1, high = 10.0, '
            "default = 1.0 }`"
        )
    if unknown := next((key for key in raw if key not in _KEYS), None):
        raise DeclarationFault(f"parameter {name} has an unknown key {one_line(unknown, 40)!r}: leave it out")
    return name, _parameter(name, raw)


def _parameter(name: str, raw: Mapping[str, Any]) -> Parameter:
    if raw.get("type") not in tuple(ParameterKind):
        raise DeclarationFault(f'parameter {name} needs type = "float", "int" or "categorical"')
    choices, log = raw.get("choices", []), raw.get("log", False)
    numbers = [raw[key] for key in ("low", "high", "step") if key in raw]
    values = [*(choices if isinstance(choices, list) else [None]), *([raw["default"]] if "default" in raw else [])]
    if not all(map(_is_plain_number, numbers)) or not all(map(_is_plain_value, values)) or type(log) is not bool:
        raise DeclarationFault(
            f"parameter {name} has a value of the wrong kind: low, high and step are numbers from {_SMALLEST:g} "
            f"to {_LARGEST:g} in size, choices a list of short values"
        )
    if len(choices) > _MOST_CHOICES:
        raise DeclarationFault(f"parameter {name} has more than {_MOST_CHOICES} choices: leave some out")
    parameter = Parameter(**{**raw, "type": ParameterKind(raw["type"]), "choices": tuple(choices)})
    fault = parameter.fault() or _step_fault(parameter)
    if fault:
        raise DeclarationFault(f"parameter {name}: {one_line(fault, 200)}")
    return parameter


def _step_fault(parameter: Parameter) -> str | None:
    if parameter.step is None or parameter.low is None or parameter.high is None:
        return None
    if parameter.step <= 0 or (parameter.high - parameter.low) / parameter.step > _MOST_STEPS:
        return "step must be above 0 and not tiny beside the range"
    return None


def _is_plain_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or _SMALLEST <= abs(value) <= _LARGEST


def _is_plain_value(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT and value.isprintable()
    return isinstance(value, bool) or _is_plain_number(value)


def with_short_words(outcome: Outcome) -> Outcome:
    """Cut the outcome's words for a person, as far as they are words."""
    reason, lines = outcome.reason, outcome.error_lines
    if isinstance(reason, str) and (short := cut_words(reason)) != reason:
        outcome = replace(outcome, reason=short)
    if type(lines) is tuple and all(isinstance(line, str) for line in lines):
        cut = tuple(map(cut_words, lines))
        outcome = outcome if cut == lines else replace(outcome, error_lines=cut)
    return outcome


def recordable(outcome: Outcome) -> Outcome:
    """Return the outcome as the ledger takes it: one that it would refuse is a failure that says why.

    What is worse than a failure stays: nobody gets around a finding by adding a number that cannot be recorded.
    """
    short = with_short_words(outcome)
    if (fault := misfit(short)) is None:
        return short
    has_failed = type(outcome.ending) is Ending and outcome.ending is not Ending.FINISHED
    ending = outcome.ending if has_failed else Ending.FAILED
    return Outcome(ending, reason=cut_words(f"its result cannot be recorded: {fault}"))


def fault_of(proposal: Proposal) -> str | None:
    """Tell why the ledger would not take this proposal: asked before it becomes a commit."""
    fault = misfit(replace(proposal, edits=dict.fromkeys(proposal.edits)))
    return f"it cannot be recorded: {fault}" if fault else None
