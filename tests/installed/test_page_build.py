"""The page is built once for each state of its sources, with a Node that runs."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from ..clean_environment import copy_sources


@pytest.fixture
def page(tmp_path: Path) -> ModuleType:
    """scripts/page.py of a clone."""
    clone = copy_sources(tmp_path / "clone")
    spec = importlib.util.spec_from_file_location("page_of_clone", clone / "scripts/page.py")
    assert spec and spec.loader  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def put_program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("node", "npm", "counts"),
    [
        ("echo v20.1.0", "echo 10.0", True),
        ("echo v18.19.1", "echo 10.0", False),
        ("echo v22.1.0", "echo no version is set >&2; exit 126", False),  # a version manager without a version
        ("exit 1", "echo 10.0", False),
    ],
)
def test_node_counts_if_it_runs_and_is_new_enough(
    page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, npm: str, counts: bool
) -> None:
    put_program(tmp_path, "node", node)
    put_program(tmp_path, "npm", npm)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert page.Node(("node",), ("npm",)).runs() is counts


def test_a_page_is_old_when_any_of_its_sources_changed(page: ModuleType) -> None:
    page.BUILT.mkdir(exist_ok=True)
    (page.BUILT / "index.html").write_text(f"<html></html>\n{page._mark()}")
    assert page.is_built()
    for source in ("src/main.tsx", "package-lock.json", "build.mjs"):
        text = (page.PAGE / source).read_text()
        (page.PAGE / source).write_text(text + "\n")
        assert not page.is_built(), source
        (page.PAGE / source).write_text(text)
        assert page.is_built(), source
    (page.PAGE / "tests/more.test.ts").write_text("")
    assert page.is_built()


def test_a_build_that_was_killed_leaves_nothing_in_the_way_of_the_next(page: ModuleType) -> None:
    (page.TOP / "build/page/node").mkdir(parents=True)
    shutil.rmtree(page.BUILT, ignore_errors=True)
    with page._scratch() as scratch:
        assert list(scratch.iterdir()) == []
    assert [file.name for file in (page.TOP / "build").iterdir()] == ["page.lock"]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "npm warn old\nnpm error code ECONNREFUSED\nnpm error syscall connect\n"
            "npm error FetchError: request to https://host/x failed, reason: refused\nnpm error A complete log",
            "FetchError: request to https://host/x failed, reason: refused",
        ),
        (
            "WARNING: Retrying after the connection broke\nERROR: Could not find a version that fits\n",
            "Could not find a version that fits",
        ),
        ("Traceback (most recent call last):\n  line\nOSError: no space", "OSError: no space"),
        ("short", "short"),
        ("", "it does not say why"),
    ],
)
def test_the_reason_of_a_failure_is_the_first_error_in_words(page: ModuleType, output: str, reason: str) -> None:
    assert page._reason(output) == reason
