"""What only the shell SDK does."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("written", "read"), [(".5", 0.5), ("-.5", -0.5), ("1e3", 1000), ("0", 0), ("-2.50", -2.5)]
)
def test_numbers_as_shell_tools_write_them_become_json(trial: Any, written: str, read: float) -> None:
    assert trial.run("sh", f". loopty.sh\nloopty_finish {written}\n").returncode == 0
    assert trial.result()["score"] == read


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("last", "z"),
        ("tricky", ':,{"\\'),
        ("empty", ""),
        ("none", "null"),
        ("yes", "true"),
        ("tiny", "1e-07"),
    ],
)
def test_flat_parameters_are_found_among_nested_ones(trial: Any, name: str, printed: str) -> None:
    nested = {"last": 1, "list": [{"last": 2}, "last"], "tricky": {"yes": 3}}
    flat = {"tricky": ':,{"\\', "empty": "", "none": None, "yes": True, "tiny": 1e-7, "last": "z"}
    trial.params.write_text(json.dumps({"nested": nested, **flat}, indent=2))
    assert trial.run("sh", f". loopty.sh\nloopty_param {name} default\n").stdout == f"{printed}\n"


@pytest.mark.parametrize("name", ["nested", "accent", "absent"])
def test_a_parameter_that_sh_cannot_read_is_an_error(trial: Any, name: str) -> None:
    trial.params.write_text(json.dumps({"nested": [1], "accent": "é"}))
    ended = trial.run("sh", f". loopty.sh\nloopty_param {name}\n")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"'{name}'" in ended.stderr


@pytest.mark.parametrize(
    "arguments", ["x loss=1", "1", "1 loss", "1 =1", "1 loss=nan", "1 loss=", "1 iteration=1"]
)
def test_a_malformed_row_is_refused(trial: Any, arguments: str) -> None:
    ended = trial.run("sh", f". loopty.sh\nloopty_report {arguments}\n")
    assert ended.returncode == 1
    assert ended.stderr.startswith("loopty: ")
    assert not trial.metrics.exists()


def test_functions_do_not_change_the_variables_of_the_script(trial: Any) -> None:
    code = """
set -eu
. loopty.sh
step=a value=b name=c score=d row=e
loopty_report 1 loss=2
loopty_param rate
loopty_finish 1
echo "$step$value$name$score$row"
"""
    assert trial.run("sh", code).stdout == "0.25\nabcde\n"
