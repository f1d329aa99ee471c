"""What the page weighs, how soon it is there, whether it is smooth with much in it, and whether it stays live
without being asked.

Times are ratios to what this browser takes here and now for a page of one line, or for a picture with little
in it: they hold on a machine that does other things, too.
"""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from conftest import until
from playwright.sync_api import Browser, Page, Route, expect
from test_web import DATA, PAGES, Visit, made_up_profile, record, run_sql, visit  # noqa: F401

MAX_BYTES = 150 * 1024  # over the wire, compressed
MAX_LOADS = 12  # times a page of one line
MAX_FRAMES = 3  # times a picture of the same page with a hundredth in it
TRIES = 3

# When the page of the address has something in it (by then the menu and the keys work), and what was asked.
WATCH = """
window.seenMs = {};
new MutationObserver(() => {
  for (const [what, selector] of Object.entries({usable: 'main .page > *', shown: 'main SHOWN'}))
    if (document.querySelector(selector)) seenMs[what] ??= performance.now();
}).observe(document, {attributes: true, childList: true, subtree: true});
"""
LOADED_MS = "performance.getEntriesByType('navigation')[0].loadEventEnd"
WEIGHT = """
performance.getEntries().filter((entry) => entry.transferSize && !entry.name.includes('/api/'))
  .reduce((sum, entry) => sum + entry.transferSize, 0)
"""


@contextlib.contextmanager
def new_visitor(browser: Browser) -> Iterator[Page]:
    """One who has seen nothing yet: nothing of the site is kept from before."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def load(browser: Browser, address: str, shown: str) -> tuple[int, dict[str, float]]:
    """Bytes of the first load, and when it could be used and had its data."""
    with new_visitor(browser) as page:
        page.add_init_script(WATCH.replace("SHOWN", shown))
        page.goto(address)
        until(page, "window.seenMs.usable && window.seenMs.shown")
        page.wait_for_load_state("load")
        return page.evaluate(WEIGHT), page.evaluate("window.seenMs")


def load_nothing(browser: Browser, site: str) -> float:
    """What this browser takes, on this machine now, for a picture of a line: no page takes less."""
    with new_visitor(browser) as page:
        page.goto(f"{site}icon.svg")
        return float(page.evaluate(LOADED_MS))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_light_and_soon_there(browser: Browser, site: str, job: int, name: str) -> None:
    usable_ms, nothing_ms = [], []
    for _ in range(TRIES):
        nothing_ms.append(load_nothing(browser, site))
        weight, seen_ms = load(browser, f"{site}#/{name}?target={job}", DATA.get(name, ".page > *"))
        assert 10_000 < weight < MAX_BYTES, f"{name}: {weight} bytes"
        usable_ms.append(seen_ms["usable"])
        if usable_ms[-1] < MAX_LOADS * nothing_ms[-1]:
            break
    usable, nothing = min(usable_ms), statistics.median(nothing_ms)
    print(f"{name}: {weight / 1024:.0f} KB, usable after {usable:.0f} ms, {usable / nothing:.1f} empty pages")
    assert usable < MAX_LOADS * nothing


SCROLL = """async () => { const grid = document.querySelector('.grid'); const at = performance.now();
  for (let i = 1; i <= 20; i += 1) { grid.scrollTop = grid.scrollHeight * i / 20;
    await new Promise(requestAnimationFrame); }
  return (performance.now() - at) / 20; }"""
KEYS = """async ([selector, keys]) => {
  const canvas = document.querySelector(selector); const at = performance.now();
  for (let i = 0; i < 20; i += 1) {
    canvas.dispatchEvent(new KeyboardEvent('keydown', {key: keys[i % keys.length], bubbles: true}));
    await new Promise(requestAnimationFrame); }
  return (performance.now() - at) / 20; }"""


def frame_ms(page: Page, script: str, *arguments: object) -> float:
    return min(float(page.evaluate(script, list(arguments))) for _ in range(TRIES))


def say(what: str, many: float, few: float) -> None:
    print(f"{what}: {many:.0f} ms for a picture, {many / few:.1f} times one with a hundredth")
    assert many < MAX_FRAMES * few


def test_a_hundred_thousand_rows_scroll_as_a_thousand(visit: Visit) -> None:  # noqa: F811
    page = visit("query")
    times = []
    for count, said in ((1000, "1 000 rows in"), (100_000, "100 000 rows in")):
        run_sql(page, f"SELECT i, 'row ' || i AS name FROM range({count}) t(i)")
        expect(page.locator(".toolbar [role=status]")).to_contain_text(said, timeout=30_000)
        times.append(frame_ms(page, SCROLL))
    say("100,000 rows", times[1], times[0])
    assert page.locator(".grid-canvas .grid-row").count() < 200, "only what is seen is there"


def with_profile(stacks: int) -> Callable[[Route], None]:
    return lambda route: route.fulfill(json=made_up_profile(stacks, 10))


def test_ten_thousand_frames_zoom_as_a_hundred(visit: Visit) -> None:  # noqa: F811
    times = []
    for stacks in (10, 1000):
        page = visit("flame", seconds=1)
        page.route("**/api/v1/profile", with_profile(stacks))
        record(page)
        expect(page.locator("canvas.flame").first).to_have_attribute("data-boxes", str(10 * stacks + 1))
        keys = ["ArrowDown", "Enter", "ArrowDown", "Escape"]
        times.append(frame_ms(page, KEYS, "canvas.flame", keys))
        page.unroute("**/api/v1/profile")
    say("10,000 frames", times[1], times[0])


def made_up_events(count: int, queries: dict[str, str]) -> str:
    """As GET events answers: that many spans, nothing of the other tables, all in the last ten seconds."""
    names = ["rank", "pid", "name", "timestamp_ns", "ms", "tid", "detail"]
    columns = [
        {"name": name, "type": "BIGINT" if name in ("pid", "timestamp_ns") else "VARCHAR"} for name in names
    ]
    rows = [
        ["0", 1, f"span {i % 40}", 1_700_000_000_000_000_000 + i * 10**10 // count, 0.05, 1, ""]
        for i in range(count)
    ]
    empty = {"columns": columns, "rows": []}
    results = {name: {"columns": columns, "rows": rows} if name == "Spans" else empty for name in queries}
    return f"event: results\ndata: {json.dumps(results)}\n\n"


def with_events(count: int) -> Callable[[Route], None]:
    def answer(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        if "queries" not in asked:
            return route.fallback()
        body = made_up_events(count, json.loads(asked["queries"][0]))
        return route.fulfill(content_type="text/event-stream", body=body)

    return answer


def test_a_hundred_thousand_events_move_as_a_thousand(visit: Visit) -> None:  # noqa: F811
    times = []
    for count in (1000, 100_000):
        page = visit("tables")
        page.route("**/api/v1/events?**", with_events(count))
        visit("timeline", **{"from": 1_700_000_000_000, "to": 1_700_000_010_000})
        canvas = page.locator("canvas.timeline")
        expect(canvas).to_have_attribute("data-events", str(count))
        times.append(frame_ms(page, KEYS, "canvas.timeline", ["w", "d", "a", "s"]))
        page.unroute("**/api/v1/events?**")
    say("100,000 events", times[1], times[0])


def test_charts_live_by_one_connection(visit: Visit) -> None:  # noqa: F811
    page = visit("system", minutes=60)
    chart = page.locator("figure.chart", has_text="CPU, % of one core").first
    until(page, "document.querySelector('figure.chart')?.dataset.points > 1")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or request.url))
    before = int(chart.get_attribute("data-points") or 0)
    until(page, f"document.querySelector('figure.chart').dataset.points > {before + 1}")
    assert not [one for one in asked if "system.cpu" in one], "new points came without a question"
