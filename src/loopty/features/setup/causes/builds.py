"""Causes: a build of C, C++ or Go that lacks a library, runs too much at once, or meets a stricter compiler."""

from __future__ import annotations

import re
import shlex

from loopty.features.setup.causes.failure import Failure, HostFacts, path_in_tree
from loopty.features.setup.causes.programs import PackageInstaller, is_known_library
from loopty.show.explanation import Cause

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
    """Explain a library whose files for builds are not installed."""
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
    """Explain a bundled library that this release does not have: an option takes the system's copy."""
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
    """Explain a build that leaves its tests out, because the library that they need is not installed."""
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
    """Explain a missing folder with the sources of GoogleTest: a submodule that a release does not have."""
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
    """Find the folder, with a slash, from which CMake names a relative path: that of the file with the error."""
    files = re.findall(r"CMake Error at (?P<folder>[^\s:]+/)CMakeLists\.txt:", found.string[: found.start()])
    return "" if found["path"].startswith("/") or not files else files[-1]


_PARALLEL = re.compile(r"\b(make(?: -C \S+)?) -j ?\d+")
_NOT_YET_BUILT = (
    r"cannot find -l\S+",
    r"No such file or directory",
    r"No rule to make target",
    r"undefined reference to ",
    r"file (?:not recognized|format not recognized|truncated)",
    r"Text file busy",
    r"^(?:/bin/sh: \d+: |sh: )?\./\S+: not found$",
)
_GENERATED_HEADER = r"fatal error: (?P<name>[A-Za-z][\w+-]*)(?:/[\w./+-]*|\.h(?:pp)?): No such file"


def parallel_make(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a missing file that make builds a moment later: one step after the other, it is there in time."""
    if not (_PARALLEL.search(failure.command) and failure.match(*_NOT_YET_BUILT)):
        return None
    header = failure.match(_GENERATED_HEADER)
    if header and is_known_library(header["name"]):
        return None  # that no build of the repository makes
    return Cause(
        "parallel-make",
        f"{failure.subject} builds several things at once, and one of them was needed before it was there",
        (failure.own_setting("command", _PARALLEL.sub(r"\1", failure.command)),),
    )


_FLAGS = {
    r"\[-fpermissive\]": (
        "the C++ compiler of this machine refuses code that older ones took, and says which flag allows it",
        'export CXXFLAGS="-fpermissive $CXXFLAGS"',
    ),
    r"\[-Werror(?:=[\w-]+)?\]|all warnings being treated as errors": (
        "the build takes warnings for errors, and the compiler of this machine has more warnings",
        'export CFLAGS="-Wno-error $CFLAGS" CXXFLAGS="-Wno-error $CXXFLAGS"',
    ),
    r"altStackMem|SIGSTKSZ": (
        "the test framework in the repository is too old for the C library of this machine: it takes a size for a "
        "constant that no longer is one",
        'export CXXFLAGS="-DCATCH_CONFIG_NO_POSIX_SIGNALS -DDOCTEST_CONFIG_NO_POSIX_SIGNALS $CXXFLAGS"',
    ),
    r"multiple definition of .*first defined here": (
        "the C code defines variables in headers, which compilers took until a few years ago",
        'export CFLAGS="-fcommon $CFLAGS"',
    ),
    r"\[-Wimplicit-function-declaration\]|\[-Wimplicit-int\]|\[-Wincompatible-pointer-types\]": (
        "the C compiler of this machine refuses code that older ones took",
        'export CFLAGS="-Wno-error=implicit-function-declaration -Wno-error=implicit-int '
        '-Wno-error=incompatible-pointer-types $CFLAGS"',
    ),
    r"unrecognized command[- ]line option '-[fm][\w=-]+'|unknown argument: '-[fm][\w=-]+'": (
        "the build gives the compiler an option that newer ones no longer know",
        'export MAKEFLAGS="CFLAGS=-O2 CXXFLAGS=-O2 $MAKEFLAGS"',
    ),
}
"""What compilers and linkers print, why, and what lets them pass."""
_GO_TEST = re.compile(r"\bgo test\b(?! -vet)")
_VETTED = (
    r"\.go:\d+:\d+: .*(?:format %\S+ (?:has|reads) arg|possible (?:Print\w* )?formatting directive"
    r"|redundant newline|non-constant format string|yields a string of one rune)"
)
"""What `go vet` prints, which `go test` runs first, and no compiler."""


def strict_compiler(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain an error that a flag of the compiler allows; builds read the flags from the environment."""
    for pattern, (sentence, exports) in _FLAGS.items():
        if failure.match(pattern) and failure.match(r"\berror: |multiple definition|being treated as errors"):
            line = f"{exports}; {failure.command}"
            return Cause("strict-compiler", sentence, (failure.own_setting("command", line),))
    return None


def strict_vet(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain code that compiles, and that a newer `go vet` refuses before the tests run."""
    found = failure.match(_VETTED)
    if found is None or not _GO_TEST.search(failure.command):
        return None
    line = _GO_TEST.sub("go test -vet=off", failure.command)
    sentence = "`go test` asks `go vet` first, and that of this machine refuses what older ones took"
    return Cause("strict-vet", sentence, (failure.own_setting("command", line),))
