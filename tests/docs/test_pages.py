"""Pages name files that exist, and the tour keeps its promise."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += [page for folder in ("docs", "examples", "benchmarks", "src") for page in (ROOT / folder).rglob("*.md")]
SOURCE = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|sh))`")
TOUR = (ROOT / "docs/design/tour.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_name_a_heading(page):
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]
    assert not [anchor for target, anchor in targets if anchor not in anchors(target)]


def anchors(page):
    """Name the headings of a page as a forge does."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_readme():
    reached, open_pages = set(), {ROOT / "README.md"}
    while open_pages:
        page = open_pages.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text())
        open_pages |= {(page.parent / link).resolve() for link in links} - reached
    assert set((ROOT / "docs").rglob("*.md")) <= reached


def test_the_pages_stay_short():
    folders = (ROOT, ROOT / "docs", ROOT / "docs/design", ROOT / "docs/research", ROOT / "benchmarks")
    words = sum(len(page.read_text().split()) for folder in folders for page in folder.glob("*.md"))
    assert words <= 50_000, "say it in fewer words"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_source_exist(page):
    named = set(SOURCE.findall(page.read_text()))
    roots = (ROOT, ROOT / "src/loopty", ROOT / "tests", page.parent)
    assert not [name for name in named if not any((root / name).exists() for root in roots)]


def test_the_tour_lists_the_files_of_a_traced_experiment():
    spec = importlib.util.spec_from_file_location("tour", ROOT / "scripts/tour.py")
    tour = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tour)
    traced, listed = set().union(*tour.trace()), tour.listed_files(TOUR)
    if "sandboxes/namespaces/sandbox.py" not in traced:
        pytest.skip("the tour goes through namespaces, which this machine does not have")
    assert len(traced ^ listed) <= 6  # some depends on time, such as what is saved when


def test_the_engine_is_read_in_the_order_of_its_readme():
    engine = ROOT / "src/loopty/engine"
    named = re.findall(r"`(\w+\.py)`", (engine / "README.md").read_text())
    assert sorted(named) == sorted(path.name for path in engine.glob("*.py") if path.name != "__init__.py")
    assert sum(len(path.read_text().splitlines()) for path in engine.glob("*.py")) <= 1700
