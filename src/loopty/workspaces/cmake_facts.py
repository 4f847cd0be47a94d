"""What the files of CMake say about the tests of a project."""

from __future__ import annotations

import re
from collections.abc import Iterable

from loopty.kit.records import Record

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
_SYSTEM_OPTION = re.compile(
    rf"{_OPTION}((?!\w*TEST)[A-Z0-9_]*(?:EXTERNAL|SYSTEM)[A-Z0-9_]*)\b", re.MULTILINE | re.IGNORECASE
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
_LIBRARY = re.compile(
    r"^[^\S\n]*add_library\s*\(\s*([\w.+-]+|\$\{(?:CMAKE_)?PROJECT_NAME\})(?!\s+(?:INTERFACE|ALIAS|IMPORTED|OBJECT)\b)"
    r"(?=[\s)])",
    re.MULTILINE | re.IGNORECASE,
)
_PROJECT = re.compile(r"^[^\S\n]*project\s*\(\s*\"?([\w.+-]+)", re.MULTILINE | re.IGNORECASE)
_COMMENT = re.compile(r"(?m)#(?!\[)[^\n]*$")


class CMakeFacts(Record):
    """How CMake is told to build the tests, and how they run."""

    test_options: tuple[str, ...] = ()
    """Options that switch tests on."""
    aside_options: tuple[str, ...] = ()
    """Options that switch on what no test needs, as examples and documents."""
    system_options: tuple[str, ...] = ()
    """Options that take a library from the system instead of a copy in the repository."""
    test_targets: tuple[str, ...] = ()
    """Targets that run the tests."""
    test_programs: tuple[str, ...] = ()
    """Programs named as tests."""
    is_known_to_ctest: bool = False
    """Whether a test is registered, so that CTest runs it."""
    libraries: tuple[str, ...] = ()
    """Targets that build a library, those nearest to the top first."""
    benchmark_programs: tuple[str, ...] = ()
    """Programs named as benchmarks."""


def cmake_facts(texts: Iterable[str]) -> CMakeFacts:
    """The facts in these files of CMake, the one of the top first."""
    text = "\n".join(_COMMENT.sub("", one) for one in texts)
    options = [name for pattern in (_TEST_OPTION, _SET_OPTION, _CONDITION) for name in pattern.findall(text)]
    return CMakeFacts(
        tuple(dict.fromkeys(name for name in options if name != "BUILD_TESTING")),
        tuple(dict.fromkeys(_ASIDE_OPTION.findall(text))),
        tuple(dict.fromkeys(_SYSTEM_OPTION.findall(text))),
        tuple(dict.fromkeys(_TARGET.findall(text))),
        tuple(dict.fromkeys(name for name in _PROGRAM.findall(text) if "$" not in name)),
        _REGISTERED.search(text) is not None,
        _libraries(text),
        tuple(dict.fromkeys(_BENCHMARK.findall(text))),
    )


def _libraries(text: str) -> tuple[str, ...]:
    """The libraries by name; one that is named as the project has the name of the first."""
    project = _PROJECT.search(text)
    names = (name if "$" not in name else project[1] if project else "" for name in _LIBRARY.findall(text))
    return tuple(dict.fromkeys(name for name in names if name and "test" not in name.lower()))
