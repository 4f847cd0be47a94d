"""How the tests of a repository are built and run, by what its files say."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from loopty.causes.unbuilt_extensions import BUILD_EXTENSIONS
from loopty.kit.records import replace
from loopty.taskfile.builds import GO_MODULE
from loopty.taskfile.native_tests import native_tests
from loopty.taskfile.node_tests import node_tests
from loopty.taskfile.tests_command import RepositoryTests
from loopty.workspaces.repository_facts import RepositoryFacts

_PYTEST = "python3 -m pytest -q -x -p no:cacheprovider"
_PARTS = (2, 1, 3)
"""Which files are tried alone, in quarters of their list."""
_MANY_FILES, _SOME_FILES = 12, 6
"""Of so many files, so many are tried together before any of them alone."""
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")


def repository_tests(facts: RepositoryFacts) -> list[RepositoryTests]:
    """The ways in which the tests may run, the most certain first."""
    return list(dict.fromkeys(_all_tests(facts)))


def _all_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    files = frozenset(facts.files)
    main = facts.languages[0] if facts.languages else ""
    if main == "python":
        yield from _python_tests(facts)
    elif facts.is_mostly_extensions:
        # Most of the code is built: without the build, its edits would change nothing that is measured.
        for tests in _python_tests(facts):
            yield replace(tests, setup=BUILD_EXTENSIONS, writable_copy=True)
    if "Cargo.toml" in files and main in ("rust", ""):
        yield RepositoryTests("cargo test --quiet", warm_up="cargo test --quiet --no-run")
    if any(path.endswith("_test.go") for path in files) and main in ("go", ""):
        yield from _go_tests(files)
    if main == "perl":
        yield from _perl_tests(files)
    if "package.json" in files:
        yield from node_tests(facts)
    yield from native_tests(facts)


def _python_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    paths = [path for path in facts.tests if path.endswith(".py")]
    if not paths:
        return
    yield RepositoryTests(f"{_PYTEST} {' '.join(map(shlex.quote, common_paths(paths)))}")
    if files := sorted(path for path in paths if _TEST_FILE.search(path)):
        # For a repository whose tests take hours, or stop at one of many: any file will do, but deep ones are
        # often data.
        depth = min(path.count("/") for path in files)
        shallow = [path for path in files if path.count("/") == depth]
        if len(shallow) >= _MANY_FILES:
            some = shallow[:: -(-len(shallow) // _SOME_FILES)]
            yield RepositoryTests(f"{_PYTEST} {' '.join(map(shlex.quote, some))}", is_part=True)
        for path in dict.fromkeys(shallow[len(shallow) * part // 4] for part in _PARTS):
            yield RepositoryTests(f"{_PYTEST} {shlex.quote(path)}", is_part=True)
    if facts.uses_unittest:
        yield RepositoryTests(_unittest_line(facts, paths))


def _unittest_line(facts: RepositoryFacts, paths: Sequence[str]) -> str:
    """Unittest on the folder at the top with the most tests."""
    tops = Counter(PurePosixPath(path).parts[0] for path in paths)
    top = tops.most_common(1)[0][0]
    is_package = f"{top}/__init__.py" in facts.files
    where = f"-s {shlex.quote(top)}{' -t .' if is_package else ''} " if not top.endswith(".py") else ""
    pattern = "test*.py" if any(PurePosixPath(path).name.startswith("test") for path in paths) else "*test*.py"
    return f"python3 -m unittest discover -q {where}-p {shlex.quote(pattern)}"


def _go_tests(files: frozenset[str]) -> Iterator[RepositoryTests]:
    warm_up, line = "go test -count=1 -run '^$' ./...", "go test -count=1 ./..."
    if "go.mod" in files:
        yield RepositoryTests(line, warm_up=warm_up)
    else:  # from before modules: its packages import each other, if at all, by a path that only its name tells
        yield RepositoryTests(line, GO_MODULE, warm_up, writable_copy=True)


def _perl_tests(files: frozenset[str]) -> Iterator[RepositoryTests]:
    if "Makefile.PL" in files:
        yield RepositoryTests("make test", "perl Makefile.PL && make", writable_copy=True)
    if "Build.PL" in files:
        yield RepositoryTests("./Build test", "perl Build.PL && ./Build", writable_copy=True)
    if any(path.startswith("t/") and path.endswith(".t") for path in files):
        yield RepositoryTests("prove -l t")


def common_paths(paths: Sequence[str]) -> list[str]:
    """The folders at the top that hold these paths; files at the top are named themselves."""
    if len(paths) == 1:
        return list(paths)
    common = os.path.commonpath(paths)
    if common and "." not in PurePosixPath(common).name:
        return [common]
    return sorted({path.partition("/")[0] for path in paths})
