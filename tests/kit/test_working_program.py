"""A program is there when it runs: rustup's proxies are on the search path also where there is no toolchain."""

import pytest

from loopty.kit.installation import working_program


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(name: str, script: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_a_program_that_runs_is_there(program):
    path = program("rustc", 'test "$1" = --version && echo rustc 1.95.0')
    assert working_program("rustc") == path
    path = program("go", 'test "$1" = version && echo go1.22')
    assert working_program("go") == path


@pytest.mark.parametrize(
    "script",
    [
        "echo 'error: rustup could not choose a version of rustc to run' >&2; exit 1",
        "exec /nowhere/rustc",
        "kill -9 $$",
    ],
)
def test_a_program_that_does_not_run_is_missing(program, script):
    program("rustc", script)
    assert working_program("rustc") is None


def test_a_program_that_is_nowhere_is_missing(program):
    assert working_program("rustc-of-nobody") is None
    program("rustc", "exit 0")
    assert working_program("rustc", path="/nowhere") is None


def test_an_old_sshd_that_states_its_version_with_an_error_is_there(program):
    path = program("sshd", "echo 'unknown option -- V' >&2; echo OpenSSH_8.9p1 >&2; exit 1")
    assert working_program("sshd") == path
