"""axe-core on every page of the app, light and dark."""

from __future__ import annotations

import pytest
from access import serious_faults
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_fault_of_accessibility(context, app_url, theme):
    page = context.new_page()
    page.emulate_media(reduced_motion="reduce")  # colours are judged as they rest
    page.goto(f"{app_url}?__theme={theme}")
    expect(page.locator(".column").first).to_be_visible()
    tabs = page.locator("#pages [role=tab]:visible")
    for at in range(tabs.count()):
        tabs.nth(at).click()
        expect(page.locator("[role=tabpanel]:visible .mtviz-stage :is(h2, h3)").first).to_be_visible()
        assert serious_faults(page) == [], tabs.nth(at).inner_text()
