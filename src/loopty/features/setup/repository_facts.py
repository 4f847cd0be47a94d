"""What a repository looks like to somebody who wants to measure it: languages, benchmarks, tests."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from loopty.features.setup.benchmark_sources import BenchmarkSources, benchmark_sources, own_package
from loopty.features.setup.build_facts import (
    CMakeFacts,
    PythonBuild,
    cmake_facts,
    evaluates_programs,
    has_blocks,
    reads_the_clock,
    scores_others,
)
from loopty.features.setup.installed_folders import without_installed
from loopty.features.setup.training import TrainingScript, training_scripts
from loopty.kit.records import Record, field
from loopty.kit.untrusted_files import source_text
from loopty.workspaces.benchmark_files import direct_imports

_PYTHON_PROJECTS = ("pyproject.toml", "setup.py")
_COMPILED_SOURCES = (".c", ".cc", ".cpp", ".cxx")
_LANGUAGES = {
    ".py": "python",
    ".c": "c",
    ".h": "c",
    ".cc": "c++",
    ".cpp": "c++",
    ".hpp": "c++",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".ts": "typescript",
    ".jsx": "javascript",
    ".tsx": "typescript",
    ".cxx": "c++",
    ".hh": "c++",
    ".hxx": "c++",
    ".rs": "rust",
    ".go": "go",
    ".pm": "perl",
    ".pl": "perl",
    ".clj": "clojure",
    ".coffee": "coffeescript",
    ".cs": "c#",
    ".erl": "erlang",
    ".ex": "elixir",
    ".f": "fortran",
    ".f90": "fortran",
    ".hs": "haskell",
    ".java": "java",
    ".jl": "julia",
    ".kt": "kotlin",
    ".ls": "livescript",
    ".lua": "lua",
    ".ml": "ocaml",
    ".nim": "nim",
    ".php": "php",
    ".r": "r",
    ".rb": "ruby",
    ".scala": "scala",
    ".swift": "swift",
    ".tcl": "tcl",
    ".vala": "vala",
    ".zig": "zig",
}
_BENCHMARK = re.compile(r"(?:^|[\s_.-])(?:bench(?:mark)?s?|perf)(?:[\s_.-]|$)", re.IGNORECASE)
_BENCHMARK_FOLDER = re.compile(r"(?:micro-?)?bench(?:mark)?(?:s|es|ing)?|perf(?:ormance)?", re.IGNORECASE)
_DATA_WRITER = re.compile(r"(?:gen(?:erate)?|create|prepare|download|fetch|plot|upload)[\s_.-]", re.IGNORECASE)
"""How the name of a script begins that makes the data of a benchmark, or shows its results."""
_TEST = re.compile(
    r"(?:^|/)(?:tests?|spec|__tests__)/|^t/|(?:^|/)(?:test_[^/]*|tests?\.(?:py|[cm]?[jt]s))$|_test\.\w+$|\.(?:test|spec)\.\w+$"
)
_EXPORTS = re.compile(r"^(?:module\.)?exports\b.*=|^export\b", re.MULTILINE)
_RUNS = re.compile(r"\brun\w*\s*\(|\brequire\.main\b|\bconsole\.|\bprocess\.(?:stdout|argv|hrtime)\b")
_ASIDE = re.compile(
    r"(?:^|/)(?:docs?|examples?|fuzz(?:ing|ers?)?|contrib|vendor|third_party|node_modules|dist|build|\.[^/]+)/"
)
_SETTINGS = re.compile(r"(?:^|/)(?:[\w-]+\.(?:config|conf)|[gG]ulpfile|[gG]runtfile)\.[cm]?[jt]s$")
"""Settings of the tools of JavaScript: no package has them as a source."""
_RECIPE = re.compile(r"^([A-Za-z][\w.-]*):(?!=)[^\n]*\n((?:\t[^\n]*\n?)+)", re.MULTILINE)
_DATA = "prepare"
"""How a script is called that makes the data and often also measures on it, as in autoresearch."""
_RULE = re.compile(r"^([^\s:#=][^\n:#=]*):(?!=)", re.MULTILINE)
_TARGET = re.compile(r"[A-Za-z][\w.-]*")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TEMPLATES = ("Makefile.in", "Makefile.am")
_USUAL_TARGETS = ("test", "check", "tests")
_TEST_TARGET = re.compile(
    r"tests?|check|checks|testit|selftest|self-test|(?:run|all|unit|quick|short|mini|basic)[-_]?(?:unit[-_]?)?tests?"
    r"|tests?[-_]?(?:all|unit|quick|short|basic|lib|suite)|check[-_](?:all|unit|lib)"
)
_MOST_TARGETS = 4
_MOST_CMAKE_FILES = 40
_FIXTURE = re.compile(r"^\s*(?:async )?def test_\w*\([^)]*\bbenchmark\b", re.MULTILINE)
_NO_TESTS = "no test specified"
_MAIN = re.compile(
    r"^if\s+__name__\s*==\s*['\"]__main__['\"]|^(?:for|while|with) |^(?!sys\.path)[A-Za-z_][\w.]*\(", re.MULTILINE
)
"""What Python does when a file is started: its main part, a loop or a call that is not inside a function."""
_UNITTEST = re.compile(r"^\s*(?:import unittest|from unittest import (?!mock))", re.MULTILINE)


class RepositoryFacts(Record):
    """Facts about the files of a repository; paths are relative to its top."""

    files: tuple[str, ...]
    languages: tuple[str, ...]
    """By number of source files, most first; tests and benchmarks do not count."""
    sources: tuple[str, ...]
    """Source files of the main language that are neither tests, benchmarks, evaluators, docs nor examples."""
    benchmarks: tuple[str, ...]
    """Files that are named as a benchmark, nearest to the top first."""
    fixture_benchmarks: tuple[str, ...]
    """Python files with tests that use the fixture of pytest-benchmark."""
    tests: tuple[str, ...]
    make_targets: frozenset[str]
    make_tests: tuple[str, ...]
    """Targets of the Makefile that run tests, the most common names first."""
    template_tests: tuple[str, ...]
    """The same of the templates from which configure writes a Makefile."""
    node_scripts: Mapping[str, str]
    """Scripts of package.json that do something, by name."""
    nested_scripts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The same of packages in folders that are named as benchmarks, by folder."""
    uses_criterion: bool = False
    go_benchmarks: bool = False
    python_mains: frozenset[str] = field(default_factory=frozenset)
    """Benchmark files of Python that run something when they are started."""
    uses_unittest: bool = False
    cmake: CMakeFacts = field(default_factory=CMakeFacts)
    bash_scripts: frozenset[str] = field(default_factory=frozenset)
    """Benchmark scripts whose first line names bash."""
    node_entry: str = ""
    """The file that loads the package of package.json; empty where it is not known."""
    package: str = ""
    """The name of the package that the repository is, without a scope."""
    of_benchmarks: BenchmarkSources = field(default_factory=BenchmarkSources)
    """What the sources of the benchmarks say."""
    trainings: tuple[TrainingScript, ...] = ()
    """Scripts that train a model."""
    uses_libtest: bool = False
    """Whether benchmarks are functions marked #[bench]."""
    has_extensions: bool = False
    """Whether setup.py builds modules of Python from sources of another language."""
    exported_benchmarks: frozenset[str] = field(default_factory=frozenset)
    """Benchmark files of JavaScript that only define what another file runs."""
    evaluators: tuple[str, ...] = ()
    """Source files that score others, by their name or by what they define."""
    programs: tuple[str, ...] = ()
    """Files in which EVOLVE-BLOCK lines mark what may change."""
    evaluated_programs: tuple[tuple[str, str], ...] = ()
    """Files that have `evaluate(program_path)`, each with the program in its folder."""
    recipes: Mapping[str, str] = field(default_factory=dict)
    """What targets of the Makefile run, by their names."""

    @property
    def is_mostly_extensions(self) -> bool:
        """Say whether most of the code is in modules of Python that have to be built."""
        return self.has_extensions and self.languages[:1] != ("python",)


def repository_facts(top: Path, files: Sequence[str]) -> RepositoryFacts:
    """Find the facts about these files below `top`; what is installed or built there is left out."""
    files = without_installed(files)
    tests = tuple(path for path in files if _TEST.search(path) and not _ASIDE.search(path))
    named = [path for path in files if _is_benchmark(path)]
    benchmarks = sorted(
        (path for path in named if not _is_beside_a_benchmark(PurePosixPath(path).name)),
        key=lambda path: (path.count("/"), len(path), path),
    )
    aside = {*tests, *named}
    code = [path for path in files if _language(path) and path not in aside and not _is_aside(path)]
    if any(name in files for name in _PYTHON_PROJECTS) and not any(
        path.endswith(_COMPILED_SOURCES) for path in code
    ):
        code = [path for path in code if not path.endswith((".h", ".hpp"))] or code  # headers alone are its data
    headers = "c++" if _is_cpp(code) else "c"
    language_of = {path: headers if path.endswith(".h") else _language(path) for path in code}
    languages = Counter(language_of.values())
    ranked = tuple(language for language, _ in languages.most_common())
    main = ranked[0] if ranked else ""
    python = [path for path in dict.fromkeys((*benchmarks, *tests)) if path.endswith(".py")]
    fixtures = tuple(path for path in python if _FIXTURE.search(source_text(top / path)))
    targets = _make_targets(top, files, _MAKEFILES)
    evaluators, programs = _evaluators_and_programs(top, code, benchmarks)
    package = own_package(top, files)
    return RepositoryFacts(
        files=tuple(files),
        languages=ranked,
        sources=tuple(
            path
            for path in code
            if language_of[path] == main and PurePosixPath(path).name != "setup.py" and path not in evaluators
        ),
        benchmarks=tuple(benchmarks),
        fixture_benchmarks=fixtures,
        tests=tests,
        make_targets=targets,
        make_tests=_test_targets(targets),
        template_tests=_test_targets(_make_targets(top, files, _TEMPLATES)),
        node_scripts=_node_scripts(top, files),
        nested_scripts=_nested_scripts(top, files),
        uses_criterion=any(
            "criterion" in source_text(top / path) for path in files if PurePosixPath(path).name == "Cargo.toml"
        ),
        go_benchmarks=any(
            re.search(r"^func Benchmark\w", source_text(top / path), re.MULTILINE) for path in _go_tests(files)
        ),
        python_mains=frozenset(
            path for path in benchmarks if path.endswith(".py") and _MAIN.search(source_text(top / path))
        ),
        uses_unittest=any(_UNITTEST.search(source_text(top / path)) for path in tests if path.endswith(".py")),
        cmake=cmake_of(top, files),
        bash_scripts=frozenset(path for path in benchmarks if re.match(r"#!.*\bbash\b", source_text(top / path))),
        node_entry=_node_entry(top, files),
        package=package,
        of_benchmarks=benchmark_sources(top, [*benchmarks, *fixtures, *_go_tests(files)], package),
        trainings=tuple(training_scripts(top, files, frozenset((*tests, *benchmarks)))),
        uses_libtest=any("#[bench]" in source_text(top / path) for path in files if path.endswith(".rs")),
        has_extensions="setup.py" in files and PythonBuild(top).has_extensions,
        exported_benchmarks=frozenset(path for path in benchmarks if _only_exports(top / path)),
        evaluators=tuple(sorted(evaluators)),
        programs=tuple(programs),
        evaluated_programs=tuple(_evaluated_programs(top, sorted(evaluators), programs, files)),
        recipes=_recipes(top, files),
    )


def _go_tests(files: Sequence[str]) -> list[str]:
    return [path for path in files if path.endswith("_test.go")]


def _evaluators_and_programs(
    top: Path, code: Sequence[str], benchmarks: Sequence[str]
) -> tuple[set[str], list[str]]:
    """Find the source files that score others, and those that mark what may change in them."""
    texts = {path: source_text(top / path) for path in code}
    evaluators = {path for path, text in texts.items() if scores_others(path, text)}
    programs = [path for path, text in texts.items() if has_blocks(text) and path not in evaluators]
    imports_data = re.compile(rf"^\s*(?:from|import)\s+{_DATA}\b", re.MULTILINE)
    if any(imports_data.search(text) for text in texts.values()):
        evaluators |= {path for path in code if PurePosixPath(path).name == f"{_DATA}.py"}
    helpers = direct_imports(benchmarks, texts, lambda path: source_text(top / path))
    evaluators |= {path for path in helpers if reads_the_clock(texts[path]) and path not in programs}
    return evaluators, programs


def _evaluated_programs(
    top: Path, evaluators: Sequence[str], programs: Sequence[str], files: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Find evaluators of one program each: the only marked one beside it, or one that is named so."""
    for evaluator in evaluators:
        folder = PurePosixPath(evaluator).parent
        marked = [path for path in programs if PurePosixPath(path).parent == folder]
        named = [
            path
            for path in marked or files
            if PurePosixPath(path).parent == folder and PurePosixPath(path).stem == "initial_program"
        ]
        chosen = named or marked
        if len(chosen) == 1 and evaluates_programs(evaluator, source_text(top / evaluator)):
            yield evaluator, chosen[0]


def _recipes(top: Path, files: Sequence[str]) -> dict[str, str]:
    name = next((name for name in _MAKEFILES if name in files), None)
    return dict(_RECIPE.findall(source_text(top / name))) if name else {}


def _only_exports(path: Path) -> bool:
    """Say whether a file of JavaScript is for another: it only says what it offers, or works for a thread."""
    text = source_text(path) if path.suffix in (".js", ".cjs", ".mjs") else ""
    is_worker = "worker_threads" in text and re.search(r"\bnew Worker\b|\bisMainThread\b", text) is None
    return is_worker or (_EXPORTS.search(text) is not None and _RUNS.search(text) is None)


def _is_aside(path: str) -> bool:
    is_of_benchmarks = any(map(_BENCHMARK_FOLDER.fullmatch, PurePosixPath(path).parts[:-1]))
    return is_of_benchmarks or _ASIDE.search(path) is not None or _SETTINGS.search(path) is not None


def _is_benchmark(path: str) -> bool:
    """Say whether a source file or script is named as a benchmark, or lies in a folder that is."""
    name = PurePosixPath(path)
    if not (_language(path) or name.suffix == ".sh") or _ASIDE.search(path) or name.name.startswith("_"):
        return False  # what begins so is for the others to import
    return bool(_BENCHMARK.search(name.stem)) or any(_BENCHMARK_FOLDER.fullmatch(part) for part in name.parts[:-1])


def _is_beside_a_benchmark(name: str) -> bool:
    return _DATA_WRITER.match(name) is not None


def _language(path: str) -> str:
    if path.endswith(".d.ts"):
        return ""  # types of code that is elsewhere
    return _LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")


def _is_cpp(code: Sequence[str]) -> bool:
    """Say whether headers that may be of C or C++ are of C++: there are more sources of it."""
    cpp = sum(_language(path) == "c++" for path in code)
    return cpp > sum(path.endswith(".c") for path in code)


def _make_targets(top: Path, files: Sequence[str], places: Sequence[str]) -> frozenset[str]:
    """List the targets of the first of these files that is there."""
    name = next((name for name in places if name in files), None)
    names = (word for rule in _RULE.findall(source_text(top / name)) for word in rule.split()) if name else ()
    return frozenset(word for word in names if _TARGET.fullmatch(word))


def _test_targets(targets: frozenset[str]) -> tuple[str, ...]:
    found = sorted(name for name in targets if _TEST_TARGET.fullmatch(name))
    usual = [name for name in _USUAL_TARGETS if name in found]
    return tuple([*usual, *(name for name in found if name not in usual)][:_MOST_TARGETS])


def cmake_of(top: Path, files: Sequence[str]) -> CMakeFacts:
    """Read what the files of CMake among these say."""
    return cmake_facts(source_text(top / path) for path in _cmake_files(files))


def _cmake_files(files: Sequence[str]) -> list[str]:
    """List the files of CMake of the project itself, the one of the top first."""
    if "CMakeLists.txt" not in files:
        return []
    found = [
        path
        for path in files
        if (PurePosixPath(path).name == "CMakeLists.txt" or path.endswith(".cmake")) and not _ASIDE.search(path)
    ]
    return sorted(found, key=lambda path: (path.count("/"), path))[:_MOST_CMAKE_FILES]


def _package_json(top: Path, files: Sequence[str]) -> dict[str, Any]:
    try:
        document = json.loads(source_text(top / "package.json")) if "package.json" in files else {}
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _node_entry(top: Path, files: Sequence[str]) -> str:
    """Find the file that package.json names as the package's own, or a usual one."""
    document = _package_json(top, files)
    own = str(document.get("name", "")).rpartition("/")[2]
    usual = ("index.js", "lib/index.js", "src/index.js", f"{own}.js", f"lib/{own}.js", f"src/{own}.js")
    main = posixpath.normpath(str(document.get("main") or "index.js"))
    paths = (main, *usual) if document else ()
    guesses = (guess for path in paths for guess in (path, f"{path}.js", f"{path}/index.js"))
    return next((guess for guess in guesses if guess in files and _language(guess) == "javascript"), "")


def _nested_scripts(top: Path, files: Sequence[str]) -> dict[str, dict[str, str]]:
    """Read the scripts of packages in folders that are named as benchmarks: these have their own dependencies."""
    places = [PurePosixPath(path).parent for path in files if path.endswith("/package.json")]
    folders = sorted(place for place in places if _BENCHMARK_FOLDER.fullmatch(place.name))
    found = {}
    for folder in folders:
        inside = [path.removeprefix(f"{folder}/") for path in files if path.startswith(f"{folder}/")]
        found[str(folder)] = _node_scripts(top / folder, inside)
    return found


def _node_scripts(top: Path, files: Sequence[str]) -> dict[str, str]:
    scripts = _package_json(top, files).get("scripts")
    if not isinstance(scripts, dict):
        return {}
    return {name: line for name, line in scripts.items() if isinstance(line, str) and _NO_TESTS not in line}
