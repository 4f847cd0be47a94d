"""Facts of a real working tree."""

import os
import subprocess

import pytest

from loopty.features.setup.causes.failure import Submodule
from loopty.features.setup.causes.this_host import ThisHost
from loopty.git.repository import Repository


@pytest.fixture
def top(tmp_path):
    folder = tmp_path / "repo"
    for path, text in {
        ".gitignore": "node_modules\n.venv/\ndata/*.csv\n",
        ".gitmodules": '[submodule "v"]\n\tpath = vendor/v\n\turl = ../v\n[submodule "w"]\n\tpath = ../../w\n',
        "src/pkg/__init__.py": "",
        "tool.py": "",
        "tests/helpers.py": "",
        "data/set.csv": "",
        "data/readme": "",
        "node_modules/.bin/vitestx": "#!/bin/sh\n",
        ".venv/pyvenv.cfg": "",
        ".venv/lib/python3.11/site-packages/numpyx/__init__.py": "",
        ".venv/lib/python3.11/site-packages/fastx.cpython-311.so": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "node_modules/.bin/vitestx").chmod(0o755)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.fixture
def host(top):
    return ThisHost(Repository.open(top))


def test_programs_are_found_in_the_shell_in_environments_and_nowhere(host):
    assert host.program("sh") in ("/usr/bin/sh", "/bin/sh")
    assert host.program("vitestx") == "node_modules/.bin/vitestx"
    assert host.program("no-such-program-x") is None
    assert host.is_shown("/usr/bin/sh")
    assert not host.is_shown("/srv/bin/x")


def test_programs_of_usual_folders_are_found_without_the_shell_knowing_them(host, tmp_path, monkeypatch):
    program = tmp_path / "home/.nvm/versions/node/v22.1.0/bin/nodex"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert host.program("nodex") == str(program)


def test_the_outermost_ignored_path_is_named(host):
    assert host.outermost_ignored("node_modules/left/index.js") == "node_modules"
    assert host.outermost_ignored("data/set.csv") == "data/set.csv"
    assert host.outermost_ignored("data/readme") is None
    assert host.has_tracked_files("data")
    assert not host.has_tracked_files("build")


def test_modules_are_found_in_environments_and_in_source_folders(host):
    assert host.environment_with("numpyx") == ".venv"
    assert host.environment_with("fastx") == ".venv"
    assert host.environment_with("other") is None
    assert [host.is_environment(name) for name in (".venv", "node_modules", "src")] == [True, True, False]
    assert (host.source_root("pkg"), host.source_root("tool"), host.source_root("x")) == ("src", "", None)
    assert host.source_root("helpers") == "tests", "tests import what lies beside them"


def test_modules_that_setup_py_builds_are_told_from_those_of_others(host, top):
    (top / "setup.py").write_text("setup(ext_modules=[Extension('pkg._fast', ['f.c']), Extension('tool', [])])\n")
    (top / "pyproject.toml").write_text("[build-system]\nrequires = ['setuptools']\n[project]\nname = 'pkg'\n")
    assert host.builds_module("pkg._fast")
    assert not host.builds_module("tool"), "its source is in the repository"
    assert not host.builds_module("numpyx")
    assert host.build_requirements() == ("setuptools",)


@pytest.mark.parametrize("text", ["[]", "{", '{"devDependencies": 3}'])
def test_packages_that_package_json_needs_are_known(host, top, text):
    assert not host.is_node_dependency("left")
    (top / "package.json").write_text('{"devDependencies": {"left": "1"}, "name": "right"}')
    assert host.is_node_dependency("left")
    assert not host.is_node_dependency("right")
    (top / "package.json").write_text(text)
    assert not host.is_node_dependency("left")


def test_packages_of_the_system_are_asked_for_by_plain_names(host, tmp_path, monkeypatch):
    program = tmp_path / "bin/apt-cache"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ntest "$3" = libev-dev && echo "Package: $3"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert host.system_package("-x", "libnone-dev", "libev-dev") == "libev-dev"
    assert host.system_package("libnone-dev") is None


def test_a_submodule_that_only_a_release_names_is_none(host):
    assert host.submodule("vendor/v/x.c") is None


def test_a_submodule_is_known_with_its_state(host, top):
    link = f"160000,{'1' * 40},vendor/v"
    subprocess.run(["git", "update-index", "--add", "--cacheinfo", link], cwd=top, check=True)
    assert host.submodule("vendor/v/x.c") == Submodule("vendor/v", False)
    (top / "vendor/v").mkdir(parents=True)
    (top / "vendor/v/.git").touch()
    assert host.submodule("vendor/v") == Submodule("vendor/v", True)
    assert host.submodule("src/pkg") is None
    assert host.submodule("../../w/x") is None


def test_libraries_are_found_where_the_user_has_them(host, tmp_path, monkeypatch):
    (tmp_path / "libnothingx.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{os.sep}nowhere:{tmp_path}")
    assert host.library("libnothingx.so.1") == str(tmp_path)
    assert host.library("libnothingx.so.2") is None


def test_a_link_to_what_never_ends_is_not_read(top):
    (top / "package.json").symlink_to("/dev/zero")
    subprocess.run(["git", "add", "-A"], cwd=top, check=True)
    host = ThisHost(Repository.open(top))
    assert not host.is_node_dependency("left")
