"""Causes: a library that a build of C or C++ needs, mostly one for its tests."""

from __future__ import annotations

import re
import shlex

from loopty.causes.cause import Cause
from loopty.causes.failure import Failure, path_in_tree
from loopty.causes.host_facts import HostFacts

_LIBRARIES = {
    r"gtest|gmock|googletest": ("libgtest-dev libgmock-dev", "gtest-devel gmock-devel"),
    r"benchmark": ("libbenchmark-dev", "google-benchmark-devel"),
    r"catch2?": ("catch2", "catch-devel"),
    r"doctest": ("doctest-dev", "doctest-devel"),
    r"boost\w*": ("libboost-all-dev", "boost-devel"),
    r"cppunit": ("libcppunit-dev", "cppunit-devel"),
    r"cunit": ("libcunit1-dev", "CUnit-devel"),
    r"cmocka": ("libcmocka-dev", "libcmocka-devel"),
    r"check": ("check", "check-devel"),
    r"glib(?:-2\.0)?": ("libglib2.0-dev", "glib2-devel"),
    r"curl|libcurl": ("libcurl4-openssl-dev", "libcurl-devel"),
    r"zlib": ("zlib1g-dev", "zlib-devel"),
    r"bzip2|bzlib": ("libbz2-dev", "bzip2-devel"),
    r"lzma|liblzma": ("liblzma-dev", "xz-devel"),
    r"zstd|libzstd": ("libzstd-dev", "libzstd-devel"),
    r"png|libpng": ("libpng-dev", "libpng-devel"),
    r"jpeg|libjpeg": ("libjpeg-dev", "libjpeg-turbo-devel"),
    r"openssl|libssl|libcrypto": ("libssl-dev", "openssl-devel"),
    r"expat": ("libexpat1-dev", "expat-devel"),
    r"libxml-?2|libxml": ("libxml2-dev", "libxml2-devel"),
    r"readline": ("libreadline-dev", "readline-devel"),
    r"n?curses\w*": ("libncurses-dev", "ncurses-devel"),
    r"gmp": ("libgmp-dev", "gmp-devel"),
    r"eigen3?": ("libeigen3-dev", "eigen3-devel"),
}
"""Libraries as CMake, pkg-config and headers name them, and the packages of Debian and Fedora that have them."""
_NAME = r"(?P<name>[A-Za-z][\w.+-]*)"
_NOT_FOUND = (
    rf"Could NOT find {_NAME} ",
    rf'configuration file provided by "{_NAME}"',
    rf"No package '{_NAME}' found",
    rf"fatal error: {_NAME}(?:/[\w./+-]*)?: No such file or directory",
    rf'Dependency "{_NAME}" not found',
    rf"cannot find -l{_NAME}",
)
_LEFT_OUT = (
    r"Package '([\w.+-]+)'[^\n]* not found",
    r"^checking for ([\w.+-]+)(?: [<>=]+ [\d.]+)?\.\.\. no$",
    r"Could NOT find ([\w.+-]+) ",
)
"""How configure and CMake name a library that they can do without."""
_FRAMEWORKS = (r"gtest|gmock|googletest", r"catch2?", r"doctest", r"cppunit", r"cunit", r"cmocka", r"check")
NO_TEST_RAN = "the command ended well, and no test ran"
_FOLDER = r'add_subdirectory given source[\s|]+"(?P<path>[^"\n]+)"[\s|]+which[\s|]+is[\s|]+not'
_GOOGLETEST = re.compile(r"g(?:oogle)?test|gmock", re.IGNORECASE)


def missing_development_library(failure: Failure, facts: HostFacts) -> Cause | None:
    """A library whose files for builds are not installed."""
    found = failure.match(*_NOT_FOUND)
    stem = re.sub(r"\.(?:h|hh|hpp|pc)$", "", found["name"]) if found else ""
    known = next(
        (names for pattern, names in _LIBRARIES.items() if re.fullmatch(pattern, stem, re.IGNORECASE)), None
    )
    if known is None and stem and facts.program("apt-get"):
        plain = stem.lower().removeprefix("lib")
        package = facts.system_package(f"lib{plain}-dev", f"{plain}-dev")
        known = (package, "") if package else None
    if known is None:
        return None
    install = _install_line(known, facts)
    advice = "" if install else f"install the package of your system that has the headers of {stem}"
    sentence = f"the build needs the library {stem}, whose files for builds are not installed on this machine"
    return Cause("missing-development-library", sentence, shell=install, advice=advice)


def missing_test_framework(failure: Failure, facts: HostFacts) -> Cause | None:
    """A build that leaves its tests out, because the library that they are written with is not installed."""
    if not failure.match(NO_TEST_RAN, r"No tests were found"):
        return None
    for pattern in _LEFT_OUT:
        for name in re.findall(pattern, failure.output, re.MULTILINE):
            known = next((_LIBRARIES[key] for key in _FRAMEWORKS if re.fullmatch(key, name, re.IGNORECASE)), None)
            if known and (install := _install_line(known, facts)):
                sentence = (
                    f"the build left its tests out: they need {name}, which is not installed on this machine"
                )
                return Cause("missing-test-library", sentence, shell=install)
    return None


def missing_googletest_folder(failure: Failure, facts: HostFacts) -> Cause | None:
    """A folder with the sources of GoogleTest: a submodule that a release does not have."""
    found = failure.match(_FOLDER) or re.search(_FOLDER, failure.output)
    path = path_in_tree(found["path"]) if found else None
    if path is None or facts.submodule(path) or not _GOOGLETEST.search(path):
        return None
    sentence = (
        f"the build of the tests wants the sources of GoogleTest in {path}, which the repository does not have"
    )
    copy = f"mkdir -p {shlex.quote(path)} && cp -r /usr/src/googletest/. {shlex.quote(path)}"
    if not facts.program("apt-get"):
        return Cause("missing-test-library", sentence, advice=f"put the sources of GoogleTest into {path}")
    install = _install_line(("googletest", ""), facts)
    return Cause("missing-test-library", sentence, shell=f"{install} && {copy}")


def _install_line(names: tuple[str, str], facts: HostFacts) -> str:
    """The line that installs packages of Debian or Fedora on this machine; empty where neither is known."""
    as_root = "sudo " if facts.program("sudo") else ""
    for tool, packages in zip(("apt-get", "dnf"), names, strict=True):
        if packages and facts.program(tool):
            return f"{as_root}{tool} install -y {packages}"
    return ""
