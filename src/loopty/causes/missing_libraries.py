"""Causes: a library that a build of C or C++ needs, mostly one for its tests."""

from __future__ import annotations

import re
import shlex

from loopty.causes.cause import Cause
from loopty.causes.failure import Failure, path_in_tree
from loopty.causes.host_facts import HostFacts
from loopty.causes.system_packages import PackageInstaller, is_known_library

_NAME = r"(?P<name>[A-Za-z][\w.+-]*)"
_NOT_FOUND = (
    rf"Could NOT find {_NAME} ",
    rf'configuration file provided by "{_NAME}"',
    rf"No package '{_NAME}' found",
    rf"(?:^|were not met: )Package '{_NAME}', required by '[^']*', not found",
    rf"fatal error: {_NAME}(?:/[\w./+-]*)?: No such file or directory",
    rf'Dependency "{_NAME}" not found',
    rf"cannot find -l{_NAME}",
    rf"configure: error: (?:lib)?{_NAME} (?:library )?(?:is )?(?:not found|required)",
    rf"configure: error: (?:cannot|could not|can't|unable to) find [^\n]*\blib(?!c\b|m\b){_NAME}",
    rf"The {_NAME} (?:headers|library|libraries) (?:were|was|is) not found",
)
_LEFT_OUT = (
    r"Package '([\w.+-]+)'[^\n]* not found",
    r"^checking for ([\w.+-]+)(?: [<>=]+ [\d.]+)?\.\.\. no$",
    r"Could NOT find ([\w.+-]+) ",
)
"""How configure and CMake name a library that they can do without."""
_NO_RUNNER = r"^WARNING: could not find '([\w.+-]+)'$"
"""How automake says that DejaGnu is missing; the tests then count as passed."""
_FRAMEWORKS = r"gtest|gmock|googletest|catch2?|doctest|cppunit|cunit|cmocka|check|criterion"
NO_TEST_RAN = "the command ended well, and no test ran"
_BUNDLED = re.compile(r"(?:bundled|bundle|third_?party|3rdparty|extern|external|externals|vendor|contrib|deps)")
"""Folders with copies of other libraries, which the packages of distributions leave out."""
_HEADER = r"fatal error: (?P<path>[A-Za-z][\w./+-]*): No such file or directory"
_CMAKE = "cmake -S . "
_FOLDER = r'add_subdirectory given source[\s|]+"(?P<path>[^"\n]+)"[\s|]+which[\s|]+is[\s|]+not'
_GOOGLETEST = re.compile(r"g(?:oogle)?test|gmock", re.IGNORECASE)


def missing_development_library(failure: Failure, facts: HostFacts) -> Cause | None:
    """A library whose files for builds are not installed."""
    found = failure.match(*_NOT_FOUND)
    if found is None:
        return None
    stem = re.sub(r"\.(?:h|hh|hpp|pc)$", "", found["name"])
    if any(facts.has_tracked_files(folder) for folder in (stem, f"include/{stem}", f"src/{stem}")):
        return None  # a file that the repository itself has not
    install = PackageInstaller(facts).library_line(stem)
    if not (install or is_known_library(stem)):
        return None
    advice = "" if install else f"install the package of your system that has the headers of {stem}"
    sentence = f"the build needs the library {stem}, whose files for builds are not installed on this machine"
    return Cause("missing-development-library", sentence, shell=install, advice=advice)


def missing_bundled_copy(failure: Failure, facts: HostFacts) -> Cause | None:
    """A copy of another library that this release does not have: an option takes the one of the system."""
    found = failure.match(_HEADER)
    folders = found["path"].lower().split("/")[:-1] if found else []
    if not any(map(_BUNDLED.fullmatch, folders)) or _CMAKE not in failure.command:
        return None
    for name in reversed([folder for folder in folders if not _BUNDLED.fullmatch(folder)]):
        words = (option for option in facts.system_options() if name in option.lower().split("_"))
        if (option := next(words, None)) and f"-D{option}=" not in failure.command:
            return Cause(
                "missing-bundled-copy",
                f"the repository has no copy of {name} of its own, and {option} takes the one of the system",
                (failure.own_setting("command", failure.command.replace(_CMAKE, f"{_CMAKE}-D{option}=ON ")),),
            )
    return None


def missing_test_framework(failure: Failure, facts: HostFacts) -> Cause | None:
    """A build that leaves its tests out, because the library that they are written with is not installed."""
    if not failure.match(NO_TEST_RAN, r"No tests were found"):
        return None
    runner = re.search(_NO_RUNNER, failure.output, re.MULTILINE)
    if runner and (install := PackageInstaller(facts).program_line(runner[1])):
        sentence = (
            f"the tests need the program {runner[1]}, which is not installed on this machine, and were left out"
        )
        return Cause("missing-test-library", sentence, shell=install)
    for pattern in _LEFT_OUT:
        for name in re.findall(pattern, failure.output, re.MULTILINE):
            is_framework = re.fullmatch(_FRAMEWORKS, name, re.IGNORECASE)
            if is_framework and (install := PackageInstaller(facts).library_line(name)):
                sentence = (
                    f"the build left its tests out: they need {name}, which is not installed on this machine"
                )
                return Cause("missing-test-library", sentence, shell=install)
    return None


def missing_googletest_folder(failure: Failure, facts: HostFacts) -> Cause | None:
    """A folder with the sources of GoogleTest: a submodule that a release does not have."""
    found = failure.match(_FOLDER) or re.search(_FOLDER, failure.output)
    path = path_in_tree(f"{_folder_before(found)}{found['path']}") if found else None
    if path is None or facts.submodule(path) or not _GOOGLETEST.search(path):
        return None
    sentence = (
        f"the build of the tests wants the sources of GoogleTest in {path}, which the repository does not have"
    )
    copy = f"mkdir -p {shlex.quote(path)} && cp -r /usr/src/googletest/. {shlex.quote(path)}"
    if not facts.program("apt-get"):
        return Cause("missing-test-library", sentence, advice=f"put the sources of GoogleTest into {path}")
    install = PackageInstaller(facts).install_line(("googletest", "", "", ""))
    return Cause("missing-test-library", sentence, shell=f"{install} && {copy}")


def _folder_before(found: re.Match[str]) -> str:
    """The folder, with a slash, from which CMake names a relative path: that of the file with the error."""
    files = re.findall(r"CMake Error at (?P<folder>[^\s:]+/)CMakeLists\.txt:", found.string[: found.start()])
    return "" if found["path"].startswith("/") or not files else files[-1]
