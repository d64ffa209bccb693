"""The page's stream on a scripted trunk, where a run can be as long and as broken as a test needs it."""

from __future__ import annotations

import threading

import pytest
from fakes import ScriptedDrafter, ScriptedTrunk, prefix_law
from playwright.sync_api import expect
from test_watch import opened, set_budget

import mtviz.trunk
from mtviz.service import Service
from mtviz.ui import build_ui, launch

pytestmark = pytest.mark.browser
VOCAB = 12
LAW = prefix_law(VOCAB, 1)


class Failing(ScriptedDrafter):
    """Fails at its third proposal in a run that asks for one draft at a time."""

    def propose(self, sequence, num_draft_tokens, sample):
        if num_draft_tokens == 1 and len(self.asked) == 2:
            raise RuntimeError("the drafter broke")
        return super().propose(sequence, num_draft_tokens, sample)


@pytest.fixture(scope="module")
def app_url(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: ScriptedTrunk(LAW, VOCAB))
        patch.setattr(Service, "_run_of", lambda service, _: (service.load(), Failing(VOCAB, law=LAW)))
        service = Service(heads=tmp_path_factory.mktemp("none"))
        service.load()
        page = build_ui(service)
        _, url, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
        yield url
        page.close()


def run(page, prompt: str) -> None:
    page.fill(".prompt-input", prompt)
    page.click(".decode")
    expect(page.locator(".decode")).to_have_text("Decode", timeout=120_000)


def test_field_F33_a_long_run_is_one_update_a_round_and_leaves_the_page_responsive(page, app_url):
    opened(page, app_url)
    set_budget(page, 500)
    page.evaluate("() => { window.updates = 0; new MutationObserver(() => { updates += 1; }).observe(document.querySelector('.where'), { childList: true, characterData: true, subtree: true }); }")
    run(page, "a long run")
    page.keyboard.press("End")
    where = page.locator(".where")
    expect(where).to_contain_text("of")
    rounds = int(where.inner_text().split()[-1])
    assert rounds > 90
    answer = page.evaluate("() => new Promise((done) => { const began = performance.now(); requestAnimationFrame(() => done(performance.now() - began)); })")
    assert answer < 1000, f"a frame took {answer} ms"


def test_field_F34_a_failing_drafter_is_a_message_and_the_next_run_works(page, app_url):
    opened(page, app_url)
    set_budget(page, 40)
    page.click(".advanced-button")
    page.fill(".advanced [data-field=num_draft_tokens]", "1")
    page.keyboard.press("Escape")
    run(page, "it breaks")
    expect(page.locator(".error")).to_contain_text("the drafter broke")
    page.keyboard.press("End")
    expect(page.locator(".where")).to_have_text("round 2 of 2")
    page.click(".advanced-button")
    page.fill(".advanced [data-field=num_draft_tokens]", "3")
    page.keyboard.press("Escape")
    run(page, "it works")
    expect(page.locator(".error")).to_be_hidden()
    expect(page.locator(".prompt").first).to_contain_text("it works")
    page.get_by_text("Acceptance by position").click()
    expect(page.locator("#acceptance .main-svg").first).to_be_visible()  # no chart of the run that failed, and then that of this one


def test_field_F27_a_closed_tab_leaves_no_thread_behind(context, app_url):
    page = opened(context.new_page(), app_url)
    set_budget(page, 20)
    run(page, "warm")
    page.close()
    before = threading.active_count()
    for _ in range(3):
        page = opened(context.new_page(), app_url)
        set_budget(page, 1000)
        page.fill(".prompt-input", "long")
        page.click(".decode")
        page.wait_for_timeout(500)
        page.close()
    assert threading.active_count() <= before + 2
