"""What `evaluate_program` does, in a module of its own: a warm process imports it before a command begins."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any, NamedTuple

from .peer_results import is_number_text
from .publish import publish_once
from .stand_ins import offer_stand_ins

KINDS = ("openevolve", "shinka", "gepa", "coral")
_USAGE = "usage: python3 -m loopty_sdk.evaluate_program EVALUATOR PROGRAM [OPTION]..."
_HELP = f"""{_USAGE}

Score a program with the evaluator of another tool, as it is.

  EVALUATOR    the file that has the function, the script or the grader
  PROGRAM      the candidate's program; a folder for coral, and for candidates of gepa in parts
  --as TOOL    whose evaluator it is: {", ".join(KINDS)}. Default: openevolve, with evaluate(program_path)
  --stage N    call evaluate_stageN, for the cascade; `all` calls each and merges their results
  --args JSON  what the task gives its evaluator: options of shinka; args and timeout of coral
  --isolated NAMES  the functions of the program that the evaluator calls, with commas: they run in a sandbox of
               their own, and the evaluator gets a program that calls them there
  --empty SCORE  the score of an empty program, for a search that starts from nothing"""


class _Order(NamedTuple):
    evaluator: str
    program: str
    tool: str
    stage: str
    arguments: str
    empty: str
    isolated: str


def main() -> None:
    order = _parse(sys.argv[1:])
    stdout = os.dup(1)
    os.dup2(2, 1)  # what evaluator and program print is no result
    offer_stand_ins()
    text = json.dumps(_evaluate(order), allow_nan=False)
    path = os.environ.get("EVO_RESULT_PATH")
    if path:
        publish_once(path, text)
    else:
        os.write(stdout, f"{text}\n".encode())


def _evaluate(order: _Order) -> dict[str, Any]:
    if order.empty and os.path.isfile(order.program) and not _text(order.program).strip():  # noqa: PTH113
        return {"score": float(order.empty)}
    if order.isolated:
        from .isolated_program import write_program

        order = order._replace(program=write_program(order.program, order.isolated.split(",")))
    task = import_module(f".{order.tool}_task", __package__)
    result: dict[str, Any] = task.evaluate(order.evaluator, order.program, order.stage, order.arguments)
    return result


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib is slow to import
        return file.read()


def _parse(words: list[str]) -> _Order:
    # By hand: argparse takes longer than a short evaluation.
    if "-h" in words or "--help" in words:
        sys.stdout.write(f"{_HELP}\n")
        sys.exit()
    files = []
    given = {"--as": KINDS[0], "--stage": "", "--args": "", "--empty": "", "--isolated": ""}
    rest = iter(words)
    for word in rest:
        option, has_value, value = word.partition("=")
        if option in given:
            given[option] = value if has_value else next(rest, "")
        elif word.startswith("-"):
            _refuse(f"there is no option {option}")
        else:
            files.append(word)
    if given["--as"] not in KINDS:
        _refuse(f"--as needs one of {', '.join(KINDS)}, not {given['--as']!r}")
    if given["--empty"] and not is_number_text(given["--empty"]):
        _refuse(f"--empty needs a finite number, not {given['--empty']!r}")
    if "--stage" in "".join(words) and not (given["--stage"].isdecimal() or given["--stage"] == "all"):
        _refuse(f"--stage needs a number or `all`, not {given['--stage']!r}")
    if len(files) != 2:
        _refuse(f"it needs two files, not {len(files)}")
    return _Order(
        files[0], files[1], given["--as"], given["--stage"], given["--args"], given["--empty"], given["--isolated"]
    )


def _refuse(reason: str) -> None:
    sys.stderr.write(f"{_USAGE}\n{reason}\n")
    sys.exit(2)
