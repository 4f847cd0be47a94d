"""Every view in a real browser: it shows the record, as text, and passes the accessibility checks."""

from pathlib import Path

import pytest

from loopty.domain.trial import Pool, Verdict

from .conftest import PHONE, open_page, serve_site
from .story import PROBE, make_page_repository, tell_combination, tell_noisy_run, tell_run

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "page/node_modules/axe-core/axe.min.js"

VIEWS = {
    "#/overview": ("Best so far", "Just ended", "tune trials"),
    "#/tree": ("a wider table", "best"),
    "#/tree?as=map": ("1.7", "Fit"),
    "#/node/1.1": ("Effect", "Checks"),
    "#/node/1.2": ("Tuned before its attempt", "as promoted"),
    "#/node/1.1.1": ("Held for review.", "Let it count…"),
    "#/node/1.3?tab=logs": ("Why it ended", "failed"),
    "#/node/1.1?tab=talk": ("onerror=hacked=1",),
    "#/node/1.1?tab=logs": ("onerror=hacked=1",),
    "#/node/1.1?tab=tasks": ("sort",),
    "#/node/1.1?tab=raw": ("As the ledger has it", "1.1"),
    "#/compare?a=1&b=1.1.2": ("Measured side by side", "What differs"),
    "#/compare/runs": ("There is one run",),
    "#/parameters": ("Importance",),
    "#/operators": ("Share kept", "random"),
    "#/agents": ("Machines", "Models"),
    "#/audit": ("Waits for you", "too good to be true"),
}


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_shows_the_record_and_nothing_of_it_runs(browser, told, path):
    site, _ = told
    with open_page(browser, site, path=path) as page:
        main = page.locator("main")
        for words in VIEWS[path]:
            if words == "Fit":
                page.get_by_role("button", name="Fit").wait_for()
            else:
                main.get_by_text(words).first.wait_for()
        page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
        assert page.locator("main img, main script, main iframe").count() == 0


def test_hostile_text_stands_there_as_text_with_its_control_characters_named(browser, told):
    site, _ = told
    with open_page(browser, site, path="#/node/1.1") as page:
        title = page.locator("h1.title")
        title.wait_for()
        assert "<img src=x onerror=hacked=1>" in title.inner_text()
        assert title.locator(".control-char").all_inner_texts() == ["U+202E", "ESC"]
        page.locator(".diff .add").first.wait_for()
        assert "<script>hacked=1</script>" in page.locator(".diff").inner_text()


@pytest.mark.parametrize(("size", "theme"), [(None, "light"), (PHONE, "dark")], ids=["laptop-light", "phone-dark"])
def test_no_view_has_a_serious_finding_of_accessibility(browser, told, size, theme):
    if not AXE.exists():
        pytest.skip("axe-core is missing: make page")
    site, _ = told
    found = {}
    with open_page(browser, site, size, theme) as page:
        page.get_by_text("Best so far").wait_for()
        page.evaluate(AXE.read_text() + "\n;undefined")
        for path, words in VIEWS.items():
            page.evaluate("path => { location.hash = path; }", path)
            page.locator("main").get_by_text(words[0]).first.wait_for()
            page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
            results = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
            serious = [
                f"{one['id']}: {node['html'][:160]}"
                for one in results["violations"]
                if one["impact"] in ("serious", "critical")
                for node in one["nodes"][:3]
            ]
            if serious:
                found[path] = serious
    assert found == {}


def test_keys_lead_through_the_page(browser, told):
    site, _ = told
    with open_page(browser, site) as page:
        page.get_by_text("Best so far").wait_for()
        page.keyboard.press("g")
        page.keyboard.press("t")
        page.get_by_text("a wider table").first.wait_for()
        page.keyboard.press("b")
        page.locator("h1.title", has_text="a wider table").wait_for()
        page.keyboard.press("h")
        page.locator(".crumbs b", has_text="1").wait_for()
        page.keyboard.press("?")
        sheet = page.get_by_role("dialog", name="Keys")
        sheet.wait_for()
        page.keyboard.press("Escape")
        sheet.wait_for(state="detached")
        before = page.evaluate("() => document.documentElement.dataset.theme")
        page.keyboard.press("d")
        assert page.evaluate("() => document.documentElement.dataset.theme") != before


def test_search_finds_a_node_by_its_words(browser, told):
    site, _ = told
    with open_page(browser, site) as page:
        page.get_by_text("Best so far").wait_for()
        page.keyboard.press("/")
        field = page.get_by_role("combobox", name="Find")
        field.fill("smaller cache")
        page.get_by_role("option").first.wait_for()
        field.press("Enter")
        page.locator("h1.title", has_text="a smaller cache").wait_for()


def test_a_combination_shows_its_pool_and_leads_to_the_search(browser, tmp_path):
    make_page_repository(tmp_path / "work")
    tell_combination(tmp_path / "work")
    with serve_site(tmp_path / "work") as site, open_page(browser, site) as page:
        card = page.locator(".card", has_text="Combination").first
        card.get_by_text("2 nodes of run 1").wait_for()
        assert card.locator("li").count() == 2
        assert "<img src=x onerror=hacked=1>" in card.inner_text()
        page.evaluate("() => { location.hash = '#/node/2'; }")
        page.locator("main").get_by_text("together with").wait_for()
        page.locator(".card", has_text="Combination").locator("li").first.wait_for()
        assert page.locator("main img, main script, main iframe").count() == 0
        page.evaluate("() => { location.hash = '#/overview'; }")
        page.get_by_role("button", name="Show run 1").click()
        page.get_by_text("Nodes of this run are combined.").wait_for()
        page.get_by_role("button", name="Show run 2").click()
        page.get_by_text("2 nodes of run 1").wait_for()


def test_a_past_version_has_its_tag_and_the_page_says_when_it_leads(browser, tmp_path):
    make_page_repository(tmp_path / "work")
    story = tell_run(tmp_path / "work")
    story.add("1.6", 90.0, Verdict.KEPT, pool=Pool.VERSION, operator="version", summary=f"version {PROBE}")
    with serve_site(tmp_path / "work") as site, open_page(browser, site) as page:
        lead = page.locator(".version-lead", has_text="is worse than version <img src=x")
        page.evaluate("() => { location.hash = '#/tree'; }")
        page.locator(".log li", has=page.locator(".tag.beside", has_text="past version")).wait_for()
        page.evaluate("() => { location.hash = '#/overview'; }")
        lead.get_by_role("link", name="A past version leads").click()
        page.locator(".node-head .tag.beside", has_text="past version").wait_for()
        assert page.locator("main img, main script, main iframe").count() == 0


@pytest.mark.parametrize("size", [None, PHONE], ids=["laptop", "phone"])
def test_the_page_leads_with_what_is_known_of_the_gain(browser, tmp_path, size):
    make_page_repository(tmp_path / "work")
    tell_noisy_run(tmp_path / "work")
    with serve_site(tmp_path / "work") as site, open_page(browser, site, size) as page:
        page.locator(".headline .big", has_text="not confirmed").wait_for()
        assert "10 % better than the baseline (not confirmed)" in page.locator(".headline").inner_text()
        page.locator(".state", has_text="by hand").wait_for()
        page.evaluate("() => { location.hash = '#/node/1.2'; }")
        page.locator("h1.title", has_text="x = 5").wait_for()
        assert page.locator(".acts .main").inner_text() == "Measure again…"
        page.locator(".figure", has_text="not confirmed").wait_for()
        page.evaluate("() => { location.hash = '#/node/1.1'; }")
        page.locator("h1.title", has_text="sort once").wait_for()
        assert page.locator(".acts .main").inner_text() == "Apply…"
