"""What moves: new results, a server that goes and comes, states of a run, and who may look."""

import pytest

from loopty.domain.trial import Verdict
from loopty.record.sessions import SessionStarted

from .conftest import PHONE, WAIT_MS, open_page, serve_site
from .story import HostileStory, make_page_repository, tell_run

pytestmark = pytest.mark.browser


@pytest.fixture
def site_and_story(tmp_path):
    top = tmp_path / "work"
    make_page_repository(top)
    story = tell_run(top)
    with serve_site(top) as site:
        yield site, story


def test_a_new_result_shows_without_a_reload(browser, site_and_story):
    site, story = site_and_story
    with open_page(browser, site) as page:
        page.get_by_text("Best so far").wait_for()
        story.add("1.1.2.1", 2.5, Verdict.KEPT, summary="a result of this moment")
        page.locator("main").get_by_text("a result of this moment").first.wait_for()
        page.wait_for_function("() => document.title.includes('2.50×')")


def test_a_page_that_lost_its_server_says_so_and_comes_back(browser, site_and_story):
    site, _ = site_and_story
    with open_page(browser, site) as page:
        page.get_by_text("Best so far").wait_for()
        disabled, enabled = (page.locator(f"button[title=Direct]:{state}") for state in ("disabled", "enabled"))
        enabled.wait_for()
        site.stop()
        page.get_by_text("This page lost its server.").wait_for()
        disabled.wait_for()
        site.start()
        page.get_by_text("This page lost its server.").wait_for(state="detached")
        enabled.wait_for()


def test_without_the_token_nothing_is_shown(browser, told):
    site, _ = told
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(site.origin)
    page.get_by_role("heading", name="Not logged in").wait_for()
    assert "a wider table" not in page.content()
    page.goto(f"{site.origin}/#token=wrong")
    page.get_by_role("heading", name="Not logged in").wait_for()
    page.goto(site.url)  # pasted into the open page, which loads nothing
    page.get_by_text("a wider table").first.wait_for()
    assert site.access.token not in page.url
    page.reload()
    page.get_by_text("a wider table").first.wait_for()
    other = context.new_page()  # a new tab
    other.goto(site.origin)
    other.get_by_text("a wider table").first.wait_for()
    assert context.cookies() == []
    context.close()


def test_a_task_without_a_run_says_how_to_begin(browser, tmp_path):
    top = tmp_path / "work"
    make_page_repository(top)
    with serve_site(top) as site, open_page(browser, site) as page:
        page.get_by_text("No experiment yet").wait_for()
        assert page.locator("code").inner_text() == "loopty run"


def test_a_run_whose_process_is_gone_is_interrupted_and_says_how_to_go_on(browser, tmp_path):
    top = tmp_path / "work"
    make_page_repository(top)
    story: HostileStory = tell_run(top)
    story.record(SessionStarted(1, "gone"))
    with serve_site(top) as site, open_page(browser, site, PHONE) as page:
        page.locator(".alert", has_text="Interrupted.").wait_for()
        assert page.locator(".state b").inner_text() == "interrupted"
