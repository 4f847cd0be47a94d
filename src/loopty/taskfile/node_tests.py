"""How the scripts of package.json run tests."""

from __future__ import annotations

import fnmatch
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping

from loopty.taskfile.tests_command import RepositoryTests
from loopty.workspaces.repository_facts import RepositoryFacts

_NO_TESTS_THEMSELVES = re.compile(
    r"\b(?:lint\w*|eslint|tslint|standard|standardx|xo|prettier|tsc|tsd|dtslint|biome|oxlint|flow|jshint|jscs|semistandard"
    r"|typecheck|check-types|format|depcheck|publint|attw|aud|audit|evalmd|ls-lint|size-limit|markdownlint)\b|:types?\b"
)
"""What scripts of package.json run beside the tests: linters, type checkers, audits."""
_ONLY_TESTS = re.compile(
    r"^(?:tests?[-:](?:only|esm|cjs)|(?:tests?[-:])?(?:unit|node|mocha|jest|tape)|mocha|jest|(?:unit|api)[-:_]?tests?)$"
)
_BUILDS = ("compile", "build", "build:dev", "build:node", "build:cjs", "bundle", "prepare", "prepublish")
"""Scripts that make what the tests import, the most common names first."""
_BUILD_SCRIPT = re.compile(r"\bnpm (?:run|run-script) (compile|build)\b")
_SCRIPT_FILE = re.compile(r"[\w./*-]+\.[cm]?[jt]sx?")
_STARTED_FILE = re.compile(r"\bnode +[\w./]|\.[cm]?[jt]sx?\b")
_TEST_PATH = re.compile(r"test|spec", re.IGNORECASE)
_COMPILER = re.compile(r"\btsc\b")
_BUNDLER = re.compile(r"\b(?:rollup|webpack|vite|esbuild|microbundle|parcel|tsup)\b")
_REPORTER = re.compile(r"\s(?:-R|--reporter)[ =]\S+")
"""An option whose value may be called spec, as a folder of tests is."""
_NAMES_PROJECT = re.compile(r" (?:-p|--project)\b|\.tsx?\b")
_TEST_FOLDER = re.compile(r"(?:\./)?(?:tests?|spec|__tests__)/?")
_MOST_PARTS = 4
_CALL = re.compile(r"\b(?:npm(?: run| run-script)|yarn(?: run)?|pnpm(?: run)?)(?: -s| --silent)? ([\w:.-]+)")
_INSTALL = re.compile(r"\b(?:npm|pnpm|yarn) (?:i|install|ci|link|add)\b|\bnpx (?!--no)|\bbower install\b")
"""What needs the network, which trials do not have."""
_DEEPEST = 4


def node_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    """The test script without its linters, as it is, after a build, and each of its parts alone.

    None where no file looks like a test: most releases lack theirs, and the runner would find nothing.
    """
    scripts = runnable_scripts(facts)
    if not _has_tests(facts, scripts):
        return
    setup = build_line(facts)
    builds_itself = _BUILD_SCRIPT.search(facts.node_scripts.get("test", "")) is not None
    for line in dict.fromkeys(_test_lines(facts.node_scripts, scripts)):
        if not (setup and builds_itself):
            yield RepositoryTests(line)
        if setup:
            yield RepositoryTests(line, setup, writable_copy=True)
    if compiler := compile_line(facts):
        for name in sorted(scripts):
            if _ONLY_TESTS.search(name) and not _NO_TESTS_THEMSELVES.search(scripts[name]):
                yield RepositoryTests(scripts[name], compiler, writable_copy=True)


def _has_tests(facts: RepositoryFacts, scripts: Mapping[str, str]) -> bool:
    """Whether a file looks like a test, or a script of tests names one."""
    named = (line for name, line in scripts.items() if _TEST_PATH.search(name) or _ONLY_TESTS.search(name))
    return any(_TEST_PATH.search(path) for path in facts.files) or any(map(_STARTED_FILE.search, named))


def runnable_scripts(facts: RepositoryFacts) -> dict[str, str]:
    """The scripts that name only files that are there, as do those that they call, and that install nothing."""
    files = frozenset(facts.files)
    return {
        name: line
        for name, line in facts.node_scripts.items()
        if all(
            names_known_files(one, files) and not _INSTALL.search(one)
            for one in _with_called(line, facts.node_scripts, 0)
        )
    }


def _with_called(line: str, scripts: Mapping[str, str], depth: int) -> Iterator[str]:
    """A script, and those of package.json that it calls."""
    yield line
    for name in _CALL.findall(line) if depth < _DEEPEST else ():
        if name in scripts:
            yield from _with_called(scripts[name], scripts, depth + 1)


def _test_lines(named: Mapping[str, str], scripts: Mapping[str, str]) -> Iterator[str]:
    """Shell lines that run tests, the most telling first. Programs of node_modules are on the path of trials."""
    parts = [part.strip() for part in named.get("test", "").split("&&")]
    tests = [part for part in parts if part and _is_test(part, named, scripts)]
    if tests and len(tests) < len(parts):
        yield " && ".join(tests)
    if "test" in scripts:
        yield "npm test --silent"
    for name in sorted(scripts):
        if _ONLY_TESTS.search(name):
            yield f"npm run --silent {shlex.quote(name)}"
    if len(tests) > 1:
        yield from tests[:_MOST_PARTS]


def _is_test(part: str, named: Mapping[str, str], scripts: Mapping[str, str]) -> bool:
    """Whether a part of the test script tests something here: no linter, no build, nothing that is missing."""
    called = [name for name in _CALL.findall(part) if name in named]
    if any(name not in scripts for name in called) or _INSTALL.search(part) or _BUILD_SCRIPT.search(part):
        return False
    return not any(_NO_TESTS_THEMSELVES.search(line) for line in (part, *(named[name] for name in called)))


def build_line(facts: RepositoryFacts) -> str:
    """The line that builds what the tests import: the script that the tests call, or one named as a build."""
    scripts = runnable_scripts(facts)
    called = _BUILD_SCRIPT.search(facts.node_scripts.get("test", ""))
    names = (called[1], *_BUILDS) if called else _BUILDS
    name = next((name for name in names if name in scripts), "")
    return f"npm run --silent {shlex.quote(name)}" if name else ""


def compile_line(facts: RepositoryFacts) -> str:
    """The compiler of TypeScript by itself, where a build puts a bundler after it, which may fail; else empty."""
    lines = facts.node_scripts.values()
    has_both = any(_COMPILER.search(line) for line in lines) and any(_BUNDLER.search(line) for line in lines)
    return "tsc -p ." if has_both and build_line(facts) and "tsconfig.json" in facts.files else ""


def names_known_files(script: str, files: frozenset[str]) -> bool:
    """Whether the files and test folders that a script of package.json names are there: releases lack many."""
    for part in re.split(r"&&|;|\|\|", _REPORTER.sub(" ", script)):
        words = [word.strip("'\"") for word in part.split()]
        if words[:1] == ["tsc"] and "tsconfig.json" not in files and not _NAMES_PROJECT.search(part):
            return False  # the compiler would print its help
        if words[:1] == ["node"] and len(words) == 2 and not _is_module(words[1], files):
            return False
        folders = [posixpath.normpath(word) for word in words[1:] if _TEST_FOLDER.fullmatch(word)]
        if not all(any(path.startswith(f"{folder}/") for path in files) for folder in folders):
            return False
        if not all(_is_known_file(word, files) for word in words if "node_modules/" not in word):
            return False
    return True


def _is_module(word: str, files: frozenset[str]) -> bool:
    """Whether Node finds this file of the repository, whose name may lack its end."""
    path = posixpath.normpath(word)
    guesses = (path, f"{path}.js", f"{path}.mjs", f"{path}.cjs", f"{path}/index.js")
    is_path = re.fullmatch(r"[\w./-]+", word) and not word.startswith(("-", "node_modules/", "./node_modules/"))
    return not is_path or any(guess in files for guess in guesses)


def _is_known_file(word: str, files: frozenset[str]) -> bool:
    """Whether a word of a script names a file that is there, or no file at all."""
    braces = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", word)
    spelled = [f"{braces[1]}{choice}{braces[3]}" for choice in braces[2].split(",")] if braces else [word]
    names = [posixpath.normpath(one) for one in spelled if _SCRIPT_FILE.fullmatch(one)]
    return not names or any(name in files or fnmatch.filter(files, name.replace("**/", "*")) for name in names)
