"""Rules over paths: what is ours is never writable, and no path leads out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.access import Access, is_clean_path


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        "sub/.git/hooks/post-checkout",
        ".GIT/config",
        "sub/.Git",
        ".git\u200c/config",
        ".g\u200dit/hooks/post-checkout",
        "\uff0egit/config",
        ".loopty\ufeff/ledger.sqlite",
        ".git /config",
        ".git./config",
        ".git::$INDEX_ALLOCATION/config",
        "git~1/config",
        "GIT~1",
        ".loopty/ledger.sqlite",
        ".loopty",
        "loopty.toml",
        "LOOPTY.toml",
        "__pycache__/evaluate.cpython-311.pyc",
        "src/__pycache__/program.cpython-311.pyc",
    ],
)
def test_files_of_git_and_loopty_and_byte_code_are_never_writable(path: str) -> None:
    assert Access(write=("**",)).refusal([path])


_OUT = ["", ".", "..", "../x", "a/../b", "a/./b", "/etc/passwd", "a//b", "a/"]
_ILLEGAL = ["a\0b", "x" * 256, "d/" * 600 + "f", "ü" * 128, "a\udc80", "a\ud800b"]


@pytest.mark.parametrize("path", [*_OUT, *_ILLEGAL], ids=ascii)
def test_a_path_that_leads_out_or_that_no_file_system_accepts_is_refused(path: str) -> None:
    assert not is_clean_path(path)
    assert Access(write=("**",)).refusal([path])


@pytest.mark.parametrize(
    "path", ["a", "a b/c'd\"e", "-rf", "line\nbreak", "über/日本", ".gitignore", ".github/x", "...x", "x" * 255]
)
def test_unusual_but_legal_names_are_allowed(path: str) -> None:
    assert Access(write=("**",)).refusal([path]) is None


def test_a_refusal_names_the_paths_and_what_may_be_changed() -> None:
    access = Access(write=("src/*.py", "data"))
    assert access.refusal(["src/a.py", "data/x/y"]) is None
    reason = access.refusal(["src/deep/a.py", "b", "c", "d"])
    assert reason == "may not change b, c, d and 1 more (writable: src/*.py, data)"


def test_hidden_wins_over_writable_and_readable() -> None:
    access = Access(write=("**",), read=("**",), hidden=("answers",))
    assert not access.is_writable("answers/gold.json")
    assert not access.is_visible("answers/gold.json")
    assert access.is_visible("question.txt")


def test_a_writable_file_is_visible() -> None:
    access = Access(write=("src",), read=("docs",))
    assert access.is_visible("src/a.py")
    assert not access.is_visible("other/a.py")


@given(st.text(max_size=20))
def test_a_clean_path_stays_below_its_directory(path: str) -> None:
    if is_clean_path(path):
        assert not path.startswith("/")
        assert not {"", ".", ".."} & set(path.split("/"))


def test_a_refusal_says_which_files_no_rule_allows() -> None:
    access = Access(write=("**",))
    reason = access.refusal(["src/__pycache__/a.pyc"])
    assert reason == (
        "may not change src/__pycache__/a.pyc "
        "(no rule allows .git, .loopty, loopty.toml or __pycache__: leave them out)"
    )
    assert access.refusal(["a.py"]) is None


@pytest.mark.parametrize("path", [".env", "web/.env.local", "keys/id_rsa", ".aws/credentials"])
def test_a_file_named_like_a_secret_is_hidden_unless_a_rule_names_it(path: str) -> None:
    access = Access(write=("**",))
    assert not access.is_visible(path)
    assert "named like a secret only if a rule names it" in (access.refusal([path]) or "")
    assert Access(write=("src",), read=("**", path)).is_visible(path)
    assert Access(write=("**", path)).refusal([path]) is None
    assert not Access(write=("**", path), hidden=(path,)).is_visible(path)


def test_a_trial_sees_certificates_and_a_command_of_a_proposers_does_not() -> None:
    access = Access(write=("src",))
    assert access.is_visible("tests/certs/server.pem")
    assert access.is_hidden_from_tries("tests/certs/server.pem")
    assert not access.is_hidden_from_tries("src/server.pem")
