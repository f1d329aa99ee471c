"""axe-core finds nothing on any page, in either theme, and every control is reached by the keyboard."""

from __future__ import annotations

import pytest
from conftest import ROOT, until
from playwright.sync_api import Page, expect
from test_web import DATA, PAGES, Visit, visit  # noqa: F401

AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
RUN = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
  .map(({id, nodes}) => `${id}: ${nodes.map(({target}) => target.join(' ')).join(', ')}`)"""
# By then every control that can be reached has been: how many there are, and which were not.
REACHED = """() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, summary, canvas[tabindex]')]
    .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0);
  const missed = all.filter((one) => !window.reached.has(one));
  return [all.length, missed.map((one) => one.outerHTML.slice(0, 80))]; }"""


def violations(page: Page) -> list[str]:
    return page.evaluate(RUN)


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(visit: Visit, name: str) -> None:  # noqa: F811
    page = visit(name)
    expect(page.locator(f"main {DATA.get(name, '.page > *')}").first).to_be_visible(timeout=20_000)
    page.evaluate(AXE.read_text())
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    until(page, "document.documentElement.dataset.theme === 'dark'")
    assert violations(page) == []


@pytest.mark.parametrize("name", ["overview", "flame", "timeline", "query"])
def test_every_control_is_reached_by_the_keyboard(visit: Visit, name: str) -> None:  # noqa: F811
    page = visit(name)
    expect(page.locator(f"main {DATA.get(name, '.page > *')}").first).to_be_visible(timeout=20_000)
    if name == "query":
        expect(page.locator(".schema summary").first).to_be_visible()
    page.keyboard.press("p")  # nothing is built anew meanwhile
    page.evaluate("""() => { window.reached = new Set();
        document.addEventListener('focusin', (event) => window.reached.add(event.target)); }""")
    total, _ = page.evaluate(REACHED)
    assert total > 15
    for _ in range(total + 60):
        page.keyboard.press("Tab")
    assert page.evaluate(REACHED)[1] == []
