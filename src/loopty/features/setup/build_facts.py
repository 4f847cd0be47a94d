"""What the files of a repository say: how CMake tests it, what Python builds, and which files score others."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from loopty.kit.markers import editable_spans
from loopty.kit.records import Record
from loopty.kit.untrusted_files import source_text

_TEST_NAME = r"[A-Z][A-Z0-9_]*TEST(?:S|ING)?(?:_[A-Z]+)?|TEST(?:S|ING)?"
_NOT_ONE = r"(?!\w*(?:DISABLE|NO_|SKIP|WITHOUT|FUZZ|COVERAGE|INSTALL))"
_OPTION = rf"^[^\S\n]*(?:cmake_dependent_)?option\s*\(\s*{_NOT_ONE}"
_TEST_OPTION = re.compile(rf"{_OPTION}({_TEST_NAME})\b", re.MULTILINE | re.IGNORECASE)
_SET_OPTION = re.compile(
    rf"^[^\S\n]*set\s*\(\s*{_NOT_ONE}({_TEST_NAME})\s+(?:OFF|FALSE|NO|0)\b[^)]*\bCACHE\s+BOOL",
    re.MULTILINE | re.IGNORECASE,
)
_CONDITION = re.compile(
    rf"^[^\S\n]*if\s*\(\s*{_NOT_ONE}({_TEST_NAME})\s*\)[^()]{{0,80}}?\b"
    r"(?:enable_testing\b|add_subdirectory\s*\(\s*\w*tests?\b)",
    re.MULTILINE | re.IGNORECASE,
)
"""A variable that switches the tests on, and that nobody declares."""
_ASIDE_OPTION = re.compile(
    rf"{_OPTION}((?!\w*TEST)[A-Z0-9_]*(?:EXAMPLE|DEMO|SAMPLE|BENCH|DOC|EXTRA)[A-Z0-9_]*)\b",
    re.MULTILINE | re.IGNORECASE,
)
_TARGET = re.compile(
    r"^[^\S\n]*add_custom_target\s*\(\s*((?:run[_-]?)?(?:unit[_-]?)?tests?(?:it|all|[_-]all)?|check(?:[_-]?all)?)\b",
    re.MULTILINE | re.IGNORECASE,
)
_PROGRAM = re.compile(r"^[^\S\n]*add_executable\s*\(\s*([\w.-]*test[\w.-]*)\s", re.MULTILINE | re.IGNORECASE)
_BENCHMARK = re.compile(
    r"^[^\S\n]*add_executable\s*\(\s*([\w.-]*(?:bench|perf)[\w.-]*)\s", re.MULTILINE | re.IGNORECASE
)
_REGISTERED = re.compile(
    r"\b(?:add_test|\w*_add_test|gtest_discover_tests|catch_discover_tests|doctest_discover_tests|gtest_add_tests)\s*\(",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?m)#(?!\[)[^\n]*$")


class CMakeFacts(Record):
    """How CMake is told to build the tests, and how they run."""

    test_options: tuple[str, ...] = ()
    """Options that switch tests on."""
    aside_options: tuple[str, ...] = ()
    """Options that switch on what no test needs, as examples and documents."""
    test_targets: tuple[str, ...] = ()
    """Targets that run the tests."""
    test_programs: tuple[str, ...] = ()
    """Programs named as tests."""
    is_known_to_ctest: bool = False
    """Whether a test is registered, so that CTest runs it."""
    benchmark_programs: tuple[str, ...] = ()
    """Programs named as benchmarks."""


def cmake_facts(texts: Iterable[str]) -> CMakeFacts:
    """Find the facts in these files of CMake, the one of the top first."""
    text = "\n".join(_COMMENT.sub("", one) for one in texts)
    options = [name for pattern in (_TEST_OPTION, _SET_OPTION, _CONDITION) for name in pattern.findall(text)]
    return CMakeFacts(
        test_options=tuple(dict.fromkeys(name for name in options if name != "BUILD_TESTING")),
        aside_options=tuple(dict.fromkeys(_ASIDE_OPTION.findall(text))),
        test_targets=tuple(dict.fromkeys(_TARGET.findall(text))),
        test_programs=tuple(dict.fromkeys(name for name in _PROGRAM.findall(text) if "$" not in name)),
        is_known_to_ctest=_REGISTERED.search(text) is not None,
        benchmark_programs=tuple(dict.fromkeys(_BENCHMARK.findall(text))),
    )


_EXTENSIONS = re.compile(r"\bExtension\s*\(|\bext_modules\b|\bcythonize\b|\bcffi_modules\b")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.\[\],<>=!~ -]*")


class PythonBuild:
    """The build files at the top of a repository."""

    def __init__(self, top: Path) -> None:
        self._setup = source_text(top / "setup.py")
        self._project = _project(top / "pyproject.toml")

    @property
    def has_extensions(self) -> bool:
        """Say whether setup.py builds modules from sources of another language."""
        return _EXTENSIONS.search(self._setup) is not None

    def names_module(self, name: str) -> bool:
        """Say whether this module is the project's own by its name, or is named in setup.py."""
        last = name.rpartition(".")[2]
        named = re.search(rf"['\"/.]{re.escape(last)}(?:['\"]|\.pyx|\.c)", self._setup) is not None
        return named or (bool(self._own_name) and _normal(self._own_name) == _normal(name))

    @property
    def import_name(self) -> str:
        """Return the name of the project if it could be that of its package, too; else empty."""
        name = self._own_name
        return name if _DOTTED.fullmatch(name) else ""

    @property
    def _own_name(self) -> str:
        table = self._project.get("project")
        return str(table.get("name", "")) if isinstance(table, dict) else ""

    @property
    def requirements(self) -> tuple[str, ...]:
        """List what a build needs, each quoted for a shell; what is no plain requirement is left out."""
        table = self._project.get("build-system")
        names = table.get("requires") if isinstance(table, dict) else None
        plain = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        plain = [name.partition(";")[0].strip() for name in plain]
        return tuple(shlex.quote(name) for name in plain if _REQUIREMENT.fullmatch(name))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _project(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(source_text(path))
    except (ValueError, RecursionError):
        return {}


_NAME = re.compile(
    r"(?:eval|grader|grading|scor(?:e|ing)|judge|bench).*|grade|.*[_-](?:eval|evaluator|grader|scorer?|judge)",
    re.IGNORECASE,
)
_FOLDER = re.compile(r"evals?|evaluat(?:ion|or)s?|graders?|grading|judges?|scoring", re.IGNORECASE)
_TOPICS = r"(?:[Ee]valuat(?:e(?:_\w+)?|or)|[Ss]core|[Gg]rade|[Bb]enchmark)"
_WORDS = rf"(?:{_TOPICS}|(?:run|get|compute|calculate)_?(?:{_TOPICS}|[Ee]valuation)|Bench[A-Z]\w*)"
_FUNCTION = re.compile(
    # Python, JavaScript, Go, Rust, Perl, Lua and Ruby at the margin; methods of a class are no evaluators.
    rf"^(?:export\s+(?:default\s+)?|pub(?:\([^)]*\))?\s+|async\s+|local\s+)*(?:def|function\*?|func|fn|sub)\s+"
    rf"{_WORDS}\b"
    rf"|^(?:export\s+)?(?:const|let|var)\s+{_WORDS}\s*=\s*(?:async\s*)?(?:function\b|\(|\w+\s*=>)"
    rf"|^(?:module\.)?exports\.{_WORDS}\s*="
    rf"|^(?:static\s+|inline\s+|extern\s+\"C\"\s+)*(?:double|float|int|long|auto|void)\s+{_WORDS}\s*\([^;]*$"
    r"|^class\s+\w*Grader\b|^#\[bench\]",
    re.MULTILINE,
)
_PUBLISHES = re.compile(
    r"\bEVO_RESULT_PATH\b|\bLOOPTY_METRICS_CSV\b|\bfrom loopty_sdk import\b|\bfrom evo_agent import\b"
    r"|\brun_shinka_eval\b|\bTaskGrader\b|\bEvaluationResult\b|\boptimize_anything\b"
)
"""What a file has that hands a result to loopty, or to a tool like it."""
_PRINTS_SCORE = re.compile(r"""["'](?:combined_)?score["']\s*:|["'](?:combined_)?score\s*[:=]""")
_MAIN = re.compile(r"^if\s+__name__\s*==|^print\s*\(|^console\.log\(|^process\.stdout", re.MULTILINE)
_CLOCK = re.compile(r"\bperf_counter|\bprocess_time|\btimeit\b|\bperformance\.now\(|\bhrtime\b|\btime\.monotonic")
_EVALUATE = re.compile(r"^def evaluate\(", re.MULTILINE)


def scores_others(path: str, text: str) -> bool:
    """Say whether a source file is named as an evaluator, defines one, or publishes a result.

    A program that marks what may change is none, unless it is named so: text outside the blocks stays as it is.
    """
    name = PurePosixPath(path)
    # Files of libraries that only look so are not editable, either: the other mistake would let a candidate
    # write its own score.
    if _NAME.fullmatch(name.stem) or any(map(_FOLDER.fullmatch, name.parts[:-1])):
        return True
    if has_blocks(text):
        return False
    is_script = _MAIN.search(text) is not None
    return bool(_FUNCTION.search(text) or _PUBLISHES.search(text) or (is_script and _PRINTS_SCORE.search(text)))


def reads_the_clock(text: str) -> bool:
    """Say whether a file measures time: one that a benchmark imports may be what it measures with."""
    return _CLOCK.search(text) is not None


def has_blocks(text: str) -> bool:
    """Say whether EVOLVE-BLOCK lines mark what may change; an unpaired one counts, too."""
    try:
        (first, *others) = editable_spans(text)
    except ValueError:
        return True
    return bool(others) or first.part_of(text) != text


def evaluates_programs(path: str, text: str) -> bool:
    """Say whether a file has `evaluate(program_path)`, as evaluators of OpenEvolve and SkyDiscover do."""
    if not path.endswith(".py") or not _EVALUATE.search(text):
        return False
    import ast  # here, because reading verbs load the facts about repositories

    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    found = [one.args for one in body if isinstance(one, ast.FunctionDef) and one.name == "evaluate"]
    return any(len(one.posonlyargs) + len(one.args) - len(one.defaults) == 1 for one in found)
