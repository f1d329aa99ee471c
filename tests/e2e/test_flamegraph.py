"""Flame graphs in a real browser: they open, search, zoom and go back, on light and dark pages."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from conftest import BOTH_THEMES, RESULTS
from playwright.sync_api import Page, expect
from test_web import made_up_profile

BOXES = "g.f:visible"


def picture(page: Page, name: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    scheme = "dark" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
    path = RESULTS / f"{name}-{scheme}.png"
    if not name.startswith("svg"):
        page.screenshot(path=path, full_page=True)
        return
    # Playwright cannot take pictures of documents that are no HTML; the browser can.
    shot = page.context.new_cdp_session(page).send("Page.captureScreenshot", {"captureBeyondViewport": True})
    path.write_bytes(base64.b64decode(shot["data"]))


def overflowing_labels(page: Page) -> list[str]:
    """Labels that are wider than their boxes."""
    return page.evaluate(
        """() => Array.from(document.querySelectorAll('g.f'))
             .filter(g => g.style.display !== 'none')
             .map(g => [g.querySelector('text'), g.querySelector('rect')])
             .filter(([text, rect]) => text.textContent &&
                text.getComputedTextLength() > Number(rect.getAttribute('width')) - 3)
             .map(([text]) => text.textContent)"""
    )


# ── SVG ──────────────────────────────────────────────────────────────────────────────────────


@BOTH_THEMES
def test_the_svg_has_titles_a_legend_and_no_text_beyond_its_box(page: Page, graphs: dict[str, Path]) -> None:
    page.goto(graphs["svg"].as_uri())
    titles = page.locator("g.f > title").all_text_contents()
    assert any(re.match(r"handle \(target_shop.py:\d+\): \d+ samples, [\d.]+%\n/", title) for title in titles)
    assert "target_shop.py" in page.locator("svg > title").text_content()
    legend = page.locator("svg > g.legend text").all_text_contents()
    assert {"your code", "native", "waiting"} <= set(legend)
    assert overflowing_labels(page) == []
    picture(page, "svg")


def test_a_click_in_the_svg_zooms_and_reset_goes_back(page: Page, graphs: dict[str, Path]) -> None:
    page.goto(graphs["svg"].as_uri())
    all_boxes = page.locator(BOXES).count()
    box = page.locator('g.f[data-l^="handle ("]').first
    before = float(box.locator("rect").get_attribute("width"))
    box.locator("rect").click()
    assert before < float(box.locator("rect").get_attribute("width")) == pytest.approx(1180)
    assert page.locator(BOXES).count() < all_boxes
    assert page.locator("g.f.caller").count() >= 3
    assert overflowing_labels(page) == []
    picture(page, "svg-zoomed")
    page.locator("#reset").click()
    assert float(box.locator("rect").get_attribute("width")) == pytest.approx(before, abs=0.01)
    assert page.locator(BOXES).count() == all_boxes
    assert not page.locator("#reset").is_visible()


@BOTH_THEMES
def test_a_search_in_the_svg_highlights_and_says_how_much(page: Page, graphs: dict[str, Path]) -> None:
    page.goto(graphs["svg"].as_uri())
    page.once("dialog", lambda dialog: dialog.accept("^(rank|合計)"))
    page.locator("#search").click()
    hits = page.locator("g.f.hit")
    assert {re.split(r"\W", label)[0] for label in hits.evaluate_all("l => l.map(g => g.dataset.l)")} == {
        "rank",
        "合計",
    }
    colour = hits.first.locator("rect").evaluate("rect => getComputedStyle(rect).fill")
    assert colour in ("rgb(162, 28, 175)", "rgb(192, 38, 211)")
    assert re.fullmatch(r"matched: \d+\.\d\d%", page.locator("#matched").text_content())
    picture(page, "svg-searched")
    page.once("dialog", lambda dialog: dialog.accept("("))
    page.keyboard.press("F3")
    assert page.locator("#matched").text_content() == "not a regular expression"
    page.keyboard.press("Escape")
    assert page.locator("g.f.hit").count() == 0


def test_what_is_under_the_mouse_is_told(page: Page, graphs: dict[str, Path]) -> None:
    page.goto(graphs["svg"].as_uri())
    page.locator('g.f[data-l^="handle ("] rect').first.hover()
    assert page.locator("#details").text_content().startswith("handle (target_shop.py:")


# ── HTML ─────────────────────────────────────────────────────────────────────────────────────


@BOTH_THEMES
def test_the_page_searches_hides_and_shows_one_function(page: Page, graphs: dict[str, Path]) -> None:
    page.goto(graphs["html"].as_uri())
    canvas = page.locator("canvas.flame").first
    assert "target_shop.py" in page.title()
    assert {"your code", "native", "waiting"} <= set(page.locator(".flame-legend button").all_text_contents())
    assert canvas.get_attribute("data-focus") == "all"
    picture(page, "html")
    page.get_by_label("Search").fill("^rank")
    assert int(canvas.get_attribute("data-hits") or 0) >= 1
    assert re.fullmatch(r"\d+\.\d\d % matched", page.locator("[role=status]").first.inner_text())
    picture(page, "html-searched")
    before = int(canvas.get_attribute("data-boxes") or 0)
    page.locator(".flame-legend button", has_text="native").click()
    assert 0 < int(canvas.get_attribute("data-boxes") or 0) < before
    page.locator(".flame-legend button", has_text="native").click()
    page.locator(".functions button", has_text=re.compile(r"^handle \(")).first.click()
    expect(page.locator(".sandwich")).to_contain_text("Called by")
    expect(page.locator(".lone-name")).to_contain_text("handle (target_shop.py:")
    picture(page, "html-sandwich")
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("Order").select_option("time")
    page.keyboard.press("Escape")
    assert canvas.get_attribute("data-focus") == "all"


def test_what_is_under_the_mouse_is_told_beside_it(page: Page, graphs: dict[str, Path]) -> None:
    page.goto(graphs["html"].as_uri())
    box = page.locator("canvas.flame").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    expect(page.locator(".tip:visible")).to_contain_text("samples")


def test_five_thousand_frames_are_drawn_at_once(page: Page, graphs: dict[str, Path], tmp_path: Path) -> None:
    text = graphs["html"].read_text()
    start = text.index('id="data">') + len('id="data">')
    end = text.index("</script>", start)
    data = json.loads(text[start:end]) | made_up_profile(1000, 5) | {"by_thread": False}
    large = tmp_path / "large.html"
    large.write_text(text[:start] + json.dumps(data) + text[end:])
    page.goto(large.as_uri())
    expect(page.locator("canvas.flame").first).to_have_attribute("data-boxes", "5001")
    picture(page, "html-large")


# ── heat map of lines ────────────────────────────────────────────────────────────────────────


def test_the_heat_map_leads_from_a_line_to_those_that_called_it(page: Page, graphs: dict[str, Path]) -> None:
    page.goto(graphs["heatmap"].as_uri())
    files = page.locator("#files button")
    names = files.locator("span:last-child").all_text_contents()
    assert "target_shop.py" in names
    files.nth(names.index("target_shop.py")).click()
    seen = page.locator("tr.seen")
    assert seen.count() >= 3
    texts = [row.locator("td.code").text_content() for row in seen.all()]
    source = (Path(__file__).parents[1] / "targets/target_shop.py").read_text().splitlines()
    assert all(text in source for text in texts)
    picture(page, "heatmap")
    # By keyboard, and to the caller by its link.
    inner = next(i for i, text in enumerate(texts) if "handle" not in text and "def" not in text)
    seen.nth(inner).focus()
    page.keyboard.press("Enter")
    callers = page.locator("tr.calls section").first.locator("button")
    before = page.locator("tr.chosen td.number").text_content()
    picture(page, "heatmap-line")
    if callers.count():
        line = callers.first.text_content().rsplit(":", 1)[1].rstrip(")")
        callers.first.click()
        assert page.locator("tr.chosen td.number").text_content() == line != before
    page.locator("#with").click()
    assert page.locator("#with").get_attribute("aria-pressed") == "true"
    page.locator("#search").fill("no such name")
    assert files.count() == 0
