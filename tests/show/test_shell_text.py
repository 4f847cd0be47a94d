"""Parameters for a shell."""

from __future__ import annotations

import subprocess

import pytest

from loopty.domain.errors import Misuse
from loopty.show.figures import shell_assignments


def test_a_shell_reads_back_what_was_written() -> None:
    params = {"lr": 1e-05, "deep": True, "n-layers": 4, "name": 'a\'b $(touch x) "c"'}
    script = 'printf "%s\\n" "$PARAM_LR" "$PARAM_DEEP" "$PARAM_N_LAYERS" "$PARAM_NAME"'
    command = ["sh", "-c", f"{shell_assignments(params)}\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1e-05", "true", "4", 'a\'b $(touch x) "c"']


def test_no_parameter_sets_a_variable_of_the_system() -> None:
    assert shell_assignments({"PATH": "/evil", "LD_PRELOAD": "x"}) == "PARAM_PATH=/evil\nPARAM_LD_PRELOAD=x"
    assert shell_assignments({"x;reboot": 1}) == "PARAM_X_REBOOT=1"


def test_two_parameters_with_one_name_in_a_shell_are_refused() -> None:
    with pytest.raises(Misuse, match="both PARAM_A_B"):
        shell_assignments({"a-b": 1, "a_b": 2})
