"""Each action behind its sheet: what it says, what it needs, what it does."""

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.trial import Verdict
from loopty.executors.process_locks import ProcessLocks
from loopty.record.directives import Directive
from loopty.record.sessions import ChangedLimits, Session, SessionStarted

from ..web.story import git
from .conftest import open_page, serve_site
from .story import make_page_repository, tell_run

pytestmark = pytest.mark.browser


@pytest.fixture
def site_and_story(tmp_path):
    top = tmp_path / "work"
    make_page_repository(top)
    story = tell_run(top)
    locks = ProcessLocks(story.state.owners)
    story.record(SessionStarted(1, locks.claim()))  # this process drives it: there is something to pause and stop
    with serve_site(top) as site:
        yield site, story


def carry_out(page, opener, verb, why="", confirm="") -> str:
    """Open the sheet, fill it, press the verb; what the page says afterwards."""
    opener.click()
    sheet = page.get_by_role("dialog")
    sheet.locator(".cmd").wait_for()
    if why:
        sheet.locator("input[name=why]").fill(why)
    if confirm:
        assert sheet.get_by_role("button", name=verb).is_disabled()
        sheet.locator("input[name=confirm]").fill(confirm)
    sheet.locator("button.main:not([disabled])", has_text=verb).click()
    toast = page.locator(".toast")
    toast.wait_for()
    sheet.wait_for(state="detached")
    text = toast.inner_text()
    toast.get_by_role("button").click()
    toast.wait_for(state="detached")
    return text


def test_actions_on_the_run(browser, site_and_story):
    site, story = site_and_story
    with open_page(browser, site) as page:
        page.get_by_text("Best so far").wait_for()
        top = page.locator("header.top")
        top.get_by_role("button", name="Direct").click()
        page.get_by_role("dialog").locator("textarea").fill("try caches")
        page.get_by_role("dialog").locator(".cmd", has_text="try caches").wait_for()
        page.get_by_role("button", name="Send").click()
        page.locator(".toast").get_by_role("button").click()
        carry_out(page, top.get_by_role("button", name="Pause"), "Pause")
        resume = top.get_by_role("button", name="Resume")
        resume.wait_for()
        carry_out(page, resume, "Resume")
        top.get_by_role("button", name="Pause").wait_for()
        carry_out(page, top.get_by_role("button", name="Stop…"), "Stop the run")
        page.get_by_role("button", name="Change", exact=True).click()
        page.get_by_role("dialog").locator("input[name=attempts]").fill("50")
        page.get_by_role("dialog").locator(".cmd", has_text="50").wait_for()
        page.get_by_role("dialog").locator("button.main:not([disabled])").click()
        page.locator(".toast").wait_for()
    run = story.recorder.refresh().runs[1]
    assert Directive.of(run).text == "try caches"
    assert ChangedLimits.of(run).limits == {"attempts": 50.0}
    assert not Session.of(run).pause_reason


def test_actions_on_a_node(browser, site_and_story):
    site, story = site_and_story
    with open_page(browser, site, path="#/node/1.1.2") as page:
        actions = page.locator(".acts")
        carry_out(page, actions.get_by_role("button", name="Discard…"), "Discard", why="wrong")
        restore = actions.get_by_role("button", name="Restore…")
        restore.wait_for()
        carry_out(page, restore, "Restore", why="right after all")
        page.goto(f"{site.origin}/#/node/1.1.1")
        decide = page.locator(".decide")
        name = story.recorder.refresh().name("1.1.1")
        carry_out(page, decide.get_by_role("button", name="Let it count…"), "Let it count", "seen", name)
        page.get_by_text("Held for review.").wait_for(state="detached")
        apply = page.locator(".acts").get_by_role("button", name="Apply…")
        apply.wait_for()
        carry_out(page, apply, "Apply")
        invalidate = page.locator(".acts").get_by_role("button", name="Invalidate…")
        carry_out(page, invalidate, "Invalidate", "cheats", name)
        page.locator(".pill", has_text="rejected").wait_for()
    history = story.recorder.refresh()
    assert history[NodeId("1.1.1")].verdict is Verdict.REJECTED
    assert "loopty" in git(site.top, "branch", "--list")


def test_a_sheet_keeps_the_focus_and_does_nothing_when_closed(browser, site_and_story):
    site, story = site_and_story
    before = story.recorder.refresh().number
    with open_page(browser, site) as page:
        page.get_by_text("Best so far").wait_for()
        opener = page.get_by_role("button", name="Stop…")
        opener.click()
        sheet = page.get_by_role("dialog", name="Stop the run?")
        sheet.locator(".cmd").wait_for()
        assert page.evaluate("() => document.activeElement.textContent") == "Cancel"
        for _ in range(6):
            page.keyboard.press("Tab")
            assert page.evaluate("() => document.activeElement.closest('[role=dialog]') !== null")
        page.keyboard.press("Escape")
        sheet.wait_for(state="detached")
        assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Stop…"
    assert story.recorder.refresh().number == before
