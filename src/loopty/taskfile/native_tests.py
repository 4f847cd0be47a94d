"""How tests and benchmarks run that make, CMake or Meson builds."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from loopty.taskfile.builds import BUILD_FOLDER, cmake_configure, configure_line, jobs_option
from loopty.taskfile.tests_command import RepositoryTests
from loopty.workspaces.repository_facts import RepositoryFacts

_C = ("c", "c++")
_MOST_PROGRAMS = 12


def native_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    """Tests that a Makefile runs, one that is there or one that a tool writes; each once before it is timed."""
    files = frozenset(facts.files)
    for target in facts.make_tests:
        yield RepositoryTests(f"make {target}", warm_up=f"make {target}")
    if not facts.languages or facts.languages[0] not in _C:
        return
    if "configure" not in files:  # tests that do not build what they need
        for target in facts.make_tests:
            yield RepositoryTests(f"make {target}", f"make {jobs_option()}", f"make {target}", writable_copy=True)
    yield from _configured_tests(facts, files)
    if "CMakeLists.txt" in files:
        yield from _cmake_tests(facts)
    if "meson.build" in files:
        build = f"meson setup {BUILD_FOLDER} --buildtype release && meson compile -C {BUILD_FOLDER}"
        yield RepositoryTests(f"meson test -C {BUILD_FOLDER}", build)


def _configured_tests(facts: RepositoryFacts, files: frozenset[str]) -> Iterator[RepositoryTests]:
    """Tests of a Makefile that configure writes: it has `check` from Automake, or what its template has."""
    if not (configure := configure_line(files)):
        return
    setup = f"{configure} && make {jobs_option()}"
    # Automake builds the programs of the tests with the tests, and runs none where TESTS is empty.
    warm_up = "make check TESTS=" if "Makefile.am" in files else "make check"
    yield RepositoryTests("make check", setup, warm_up, writable_copy=True)
    for target in facts.template_tests:
        if target != "check":
            yield RepositoryTests(f"make {target}", setup, f"make {target}", writable_copy=True)


def _cmake_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    """CTest where it knows the tests, then targets that run them, then the programs themselves."""
    cmake = facts.cmake
    configure = cmake_configure(facts, with_tests=True)
    build = f"{configure} && cmake --build {BUILD_FOLDER} {jobs_option()}"
    if cmake.is_known_to_ctest or not (cmake.test_targets or cmake.test_programs):
        yield RepositoryTests(f"ctest --no-tests=error --test-dir {BUILD_FOLDER}", build)
    for target in cmake.test_targets:
        line = f"cmake --build {BUILD_FOLDER} --target {shlex.quote(target)}"
        yield RepositoryTests(line, build, line)
    if cmake.test_programs and not cmake.is_known_to_ctest:
        yield RepositoryTests(" && ".join(map(_built_program, cmake.test_programs[:_MOST_PROGRAMS])), build)
    if cmake.test_programs:
        # For where the whole takes too long, or one of the tests does not compile.
        name = cmake.test_programs[0]
        yield RepositoryTests(_built_program(name), f"{build} --target {shlex.quote(name)}", is_part=True)


def native_benchmark(facts: RepositoryFacts) -> RepositoryTests | None:
    """The first program that CMake builds and that is named as a benchmark, built alone."""
    names = facts.cmake.benchmark_programs
    if not names or facts.languages[:1] not in (("c",), ("c++",)):
        return None
    configure = cmake_configure(facts, with_tests=False, with_benchmarks=True)
    build = f"cmake --build {BUILD_FOLDER} {jobs_option()} --target {shlex.quote(names[0])}"
    return RepositoryTests(_built_program(names[0]), f"{configure} && {build}", is_part=True)


def _built_program(name: str) -> str:
    return f'"$(find {BUILD_FOLDER} -type f -name {shlex.quote(name)} | head -n 1)"'
