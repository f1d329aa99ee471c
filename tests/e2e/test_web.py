"""The page of probingd in a real browser, about a real job: every page shows true data and nothing is
loaded from elsewhere. Names in the job try to be HTML."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import BIN, HOSTILE, RESULTS, ROOT, until
from playwright.sync_api import Locator, Page, expect

PAGES = (
    "overview",
    "stacks",
    "flame",
    "training",
    "timeline",
    "system",
    "cluster",
    "query",
    "tables",
    "console",
    "settings",
)

# What a page shows once it has answers; those that are not here ask nothing before somebody does.
DATA = {
    "overview": ".facts",
    "stacks": ".thread",
    "training": ".facts",
    "timeline": "canvas.timeline",
    "system": "figure.chart[data-points]",
    "cluster": ":is(.rank, .state.empty)",
    "tables": "[role=option]",
    "settings": ".setting",
}

Visit = Callable[..., Page]


@pytest.fixture
def visit(page: Page, site: str, job: int) -> Iterator[Visit]:
    """Goes to a page of the site; fails when something was asked of another machine."""
    elsewhere: list[str] = []
    page.on(
        "request",
        lambda request: None if request.url.startswith((site, "blob:")) else elsewhere.append(request.url),
    )

    def go(name: str, target: int | None = job, **params: object) -> Page:
        words = {"target": target, **params}
        query = "&".join(f"{key}={value}" for key, value in words.items() if value is not None)
        page.goto(f"{site}#/{name}?{query}")
        expect(page.locator(f".page-{name}")).to_be_visible()
        return page

    yield go
    assert elsewhere == []
    assert page.locator("img[src]").count() == 0, "a name became an element"


def picture(page: Page, name: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(
        path=RESULTS / f"web-{name}-{page.evaluate('document.documentElement.dataset.theme')}.png"
    )


def test_the_overview_lists_the_job_and_one_click_shows_it(visit: Visit, job: int) -> None:
    page = visit("overview", target=None)
    row = page.locator(".targets tbody tr", has=page.get_by_role("link", name=str(job), exact=True))
    expect(row).to_contain_text("target_job.py")
    expect(row).to_contain_text(re.compile(r"train_step|forward|backward|load_batch|record|genexpr|span|log"))
    row.get_by_role("link", name=str(job), exact=True).click()
    expect(page.locator(".facts")).to_contain_text("Threads")
    expect(page.locator(".chart").first).to_have_attribute(
        "data-points", re.compile(r"[1-9]"), timeout=15_000
    )
    assert f"target={job}" in page.url
    picture(page, "overview")


def test_a_process_that_does_not_move_is_told(visit: Visit) -> None:
    code = "import time\ndef all_reduce():\n    time.sleep(600)\nall_reduce()"
    stuck = subprocess.Popen([sys.executable, "-c", code])
    try:
        page = visit("overview", target=stuck.pid)
        expect(page.locator(".where")).to_contain_text("all_reduce")
        expect(page.locator(".badge.warn")).to_contain_text("still for", timeout=40_000)
        expect(page.locator(".state.empty")).to_contain_text(f"probing -t {stuck.pid} inject")
    finally:
        stuck.kill()
        stuck.wait()


def test_stacks_show_the_threads_and_the_hung_one(visit: Visit) -> None:
    page = visit("stacks")
    main = page.locator(".thread", has_text="MainThread")
    expect(main.locator(".frame").last).to_contain_text("<module>")
    hung = page.locator(".thread", has_text="wait_for_a_lock_for_ever")
    expect(hung.locator("h2")).to_contain_text(HOSTILE)
    expect(hung.locator("h2")).to_contain_text("futex")
    picture(page, "stacks")
    page.get_by_label("Filter").fill("for_ever")
    expect(page.locator(".thread")).to_have_count(1)


def test_locals_of_a_frame_are_shown_as_text(visit: Visit) -> None:
    page = visit("stacks")
    page.locator(".frame button", has_text="main").first.click()
    expect(page.locator(".locals dt", has_text="step").first).to_be_visible()
    expect(page.locator(".source .current").first).to_be_visible()
    expect(page.locator(".source").first).to_contain_text("while True")


def test_native_frames_can_be_asked_for(visit: Visit) -> None:
    page = visit("stacks")
    page.get_by_label("Native frames").check()
    expect(page.locator(".frame.native").first).to_be_visible(timeout=20_000)
    assert "native=1" in page.url


def test_a_flame_graph_is_recorded_searched_and_zoomed(visit: Visit) -> None:
    page = visit("flame", seconds=1)
    page.get_by_role("button", name="Record").click()
    canvas = page.locator("canvas.flame")
    expect(canvas).to_have_attribute("data-focus", "all", timeout=20_000)
    page.get_by_placeholder("Search").fill("train_step")
    expect(canvas).to_have_attribute("data-hits", re.compile(r"[1-9]"))
    expect(page.locator(".toolbar [role=status]")).to_contain_text("matched")
    expect(page.locator("table.plain")).to_contain_text("target_job.py")
    picture(page, "flame")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(canvas).not_to_have_attribute("data-focus", "all")
    page.keyboard.press("Escape")
    expect(canvas).to_have_attribute("data-focus", "all")


def test_two_recordings_are_compared(visit: Visit) -> None:
    page = visit("flame", seconds=0.5)
    page.get_by_role("button", name="Record").click()
    page.get_by_role("button", name="Set as baseline").click(timeout=20_000)
    page.get_by_role("button", name="Record").click()
    expect(page.get_by_role("button", name="Recording…")).to_be_visible()
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_enabled(timeout=20_000)
    page.locator("canvas.flame").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".flame-details")).to_contain_text("against the baseline")


def test_an_interval_is_compared_with_the_one_before(visit: Visit) -> None:
    page = visit("flame", live=1, interval=10, before=1)
    for on in (False, True):  # a link does not begin to sample: somebody does
        page.get_by_label("Continuous").set_checked(on)
    canvas = page.locator("canvas.flame")
    expect(canvas).to_have_attribute("data-focus", "all", timeout=20_000)
    expect(page.get_by_label("Compare with the time before")).to_be_checked()
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".flame-details")).to_contain_text("against the baseline", timeout=30_000)
    picture(page, "flame-interval")
    page.get_by_label("Interval").select_option("")
    expect(page.get_by_label("Compare with the time before")).to_be_hidden()
    assert "interval" not in page.url


def made_up_profile(stacks: int, depth: int) -> dict:
    """As POST profile answers: every stack has frames of its own."""
    count = stacks * depth
    frames = [
        {"kind": "python", "func": f"f{i}", "file": f"/m{i % 50}.py", "lineno": i, "first_line": i}
        for i in range(count)
    ]
    return {
        "pid": 1,
        "period_ns": 10_000_000,
        "samples_taken": stacks,
        "lost": {},
        "threads": [{"pid": 1, "tid": 1, "name": "main", "process": "python"}],
        "frames": frames,
        "stacks": [list(range(i * depth, (i + 1) * depth)) for i in range(stacks)],
        "samples": {
            "weight": [1] * stacks,
            "thread": [0] * stacks,
            "stack": list(range(stacks)),
            "on_cpu": [True] * stacks,
            "has_gil": [True] * stacks,
        },
    }


def test_ten_thousand_frames_are_drawn_at_once(visit: Visit) -> None:
    page = visit("flame", seconds=1)
    page.route("**/api/v1/profile", lambda route: route.fulfill(json=made_up_profile(1000, 10)))
    page.get_by_role("button", name="Record").click()
    expect(page.locator("canvas.flame")).to_have_attribute("data-boxes", "10001")
    took_ms = page.evaluate(
        """() => { const input = document.querySelector('input[type=search]'); input.value = 'f77';
             const at = performance.now(); input.dispatchEvent(new Event('input'));
             return performance.now() - at; }"""
    )
    expect(page.locator("canvas.flame")).to_have_attribute("data-hits", re.compile(r"[1-9]"))
    assert took_ms < 500


def test_a_flame_graph_changes_with_the_theme(visit: Visit) -> None:
    page = visit("flame", seconds=1)
    page.route("**/api/v1/profile", lambda route: route.fulfill(json=made_up_profile(10, 10)))
    page.get_by_role("button", name="Record").click()
    expect(page.locator("canvas.flame")).to_have_attribute("data-boxes", "101")
    page.evaluate("window.before = document.querySelector('canvas.flame').toDataURL()")
    is_dark = page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.emulate_media(color_scheme="light" if is_dark else "dark")
    until(page, "document.querySelector('canvas.flame').toDataURL() !== window.before")


def test_training_shows_steps_modules_and_losses(visit: Visit) -> None:
    page = visit("training")
    expect(page.locator(".facts").first).to_contain_text("Last step")
    expect(page.locator("table.modules")).to_contain_text("net.attention")
    expect(page.locator(".treemap-box")).to_have_count(3)
    for name in ("loss", "accuracy"):
        expect(page.locator("figure.chart", has_text=name).first).to_have_attribute(
            "data-points", re.compile(r"[1-9]")
        )
    picture(page, "training")


def test_pages_about_all_targets_show_each(visit: Visit, job: int) -> None:
    page = visit("training", target=None)
    expect(page.locator("figure.chart", has_text="loss").first).to_have_attribute(
        "data-points", re.compile(r"[1-9]")
    )
    page = visit("system", target=None)
    chart = page.locator("figure.chart", has_text="Memory of the process")
    expect(chart.locator(".legend")).to_contain_text(str(job), timeout=15_000)
    page = visit("timeline", target=None)
    expect(page.locator("canvas.timeline")).to_have_attribute("data-events", re.compile(r"[1-9]\d"))


def test_the_timeline_has_lanes_and_goes_to_perfetto(visit: Visit) -> None:
    page = visit("timeline", seconds=1800)  # the exception was raised once, at the start
    expect(page.locator("canvas.timeline")).to_have_attribute("data-events", re.compile(r"[1-9]\d"))
    picture(page, "timeline")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save for Perfetto").click()
    trace = json.loads(download.value.path().read_text())
    names = {event["name"] for event in trace["traceEvents"]}
    assert {"load", "compute", "ZeroDivisionError"} <= names
    assert any(name.startswith("generation ") for name in names)


def test_the_system_page_draws_series(visit: Visit) -> None:
    page = visit("system")
    for title in ("CPU, % of one core", "Memory of the process", "Context switches"):
        chart = page.locator("figure.chart", has_text=title)
        expect(chart).to_have_attribute("data-points", re.compile(r"[1-9]"), timeout=15_000)
    expect(page.locator("table.plain")).to_contain_text("futex")
    picture(page, "system")


def typed(editor: Locator) -> str:
    """What stands in an editor: every line is an element of its own."""
    return "\n".join(line.replace("\n", "") for line in editor.locator(".cm-line").all_inner_texts())


def put(editor: Locator, text: str) -> None:
    """As one who empties it first: fill() makes Chrome style the text, which the security policy forbids."""
    editor.press("Control+a")
    editor.press("Delete")
    editor.page.keyboard.insert_text(text)


def run_sql(page: Page, sql: str) -> None:
    editor = page.get_by_label("SQL", exact=True)
    put(editor, sql)
    editor.press("Control+Enter")


@pytest.fixture
def ranks(site: str, tmp_path: Path) -> Iterator[list[int]]:
    """Three ranks of a job, of which number 1 makes the others wait."""
    started = []
    command = [
        sys.executable,
        ROOT / "tests/targets/target_rank.py",
        ROOT / "python",
        tmp_path,
        "straggler",
        "1",
    ]
    try:
        for rank in range(3):
            variables = {"RANK": str(rank), "WORLD_SIZE": "3", "TORCHELASTIC_RUN_ID": tmp_path.name}
            variables["PROBING_LIBRARY"] = str(BIN / "libprobing.so")
            started.append(subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.DEVNULL))
        yield [each.pid for each in started]
    finally:
        for each in started:
            each.kill()
            each.wait()


def test_the_cluster_page_shows_who_waits_for_whom(visit: Visit, ranks: list[int]) -> None:
    page = visit("cluster", target=None)
    expect(page.locator(".rank")).to_have_count(3, timeout=20_000)
    page.get_by_label("what colours the ranks").select_option("waiting")
    expect(page.locator(".rank.hot strong")).to_have_text(["0", "2"], timeout=30_000)
    assert "metric=waiting" in page.url
    expect(page.locator(".stack-group").first).to_contain_text(re.compile(r"ranks? \([012]"))
    expect(page.locator("canvas.heat-map")).to_be_visible()
    slowest = page.locator(".slowest")
    expect(slowest).to_contain_text(re.compile(r"rank 1 in \d+ of \d+ steps"), timeout=20_000)
    expect(slowest.locator("figure.chart")).to_have_attribute("data-points", re.compile(r"[1-9]"))
    expect(page.get_by_role("heading", name="Diagnosis")).to_be_visible(timeout=20_000)
    picture(page, "cluster")
    page.locator(".rank").first.click()
    expect(page.locator("h1")).to_have_text("Stacks")
    assert f"target={ranks[0]}" in page.url


def test_sql_runs_and_the_link_keeps_it(visit: Visit, site: str) -> None:
    page = visit("query")
    run_sql(page, "SELECT 9223372036854775807 AS big, NULL AS nothing, '<b>x</b>' AS text")
    cells = page.locator(".grid-canvas .grid-cell")
    expect(cells).to_have_text(["9223372036854775807", "NULL", "<b>x</b>"])
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.get_by_role("button", name="Run", exact=True).click()  # by itself a link runs nothing
    expect(cells).to_have_text(["9223372036854775807", "NULL", "<b>x</b>"])
    expect(page.locator(".toolbar [role=status]")).to_contain_text("1 row in")


def test_tables_and_columns_are_completed(visit: Visit) -> None:
    page = visit("query", q="")
    area = page.get_by_label("SQL", exact=True)
    put(area, "")
    area.press_sequentially("SELECT * FROM torch_st")
    first = page.locator(".cm-tooltip-autocomplete [role=option]").first
    expect(first).to_contain_text("python.torch_steps")
    picture(page, "completion")
    page.wait_for_timeout(100)  # what is pressed as the list opens was meant for the text
    area.press("Tab")
    assert typed(area) == "SELECT * FROM python.torch_steps"
    area.press_sequentially(" WHERE dur")
    expect(first).to_contain_text("duration")
    page.wait_for_timeout(100)
    area.press("Enter")
    assert typed(area) == "SELECT * FROM python.torch_steps WHERE duration"
    area.press("Tab")
    expect(page.get_by_role("button", name="Run")).to_be_focused()  # nobody is caught in the editor


def test_keys_that_are_typed_into_an_editor_lead_nowhere(visit: Visit) -> None:
    page = visit("query", q="")
    page.get_by_label("SQL", exact=True).press_sequentially("SELECT 2, 'p'")
    expect(page.locator("h1")).to_have_text("SQL")
    expect(page.locator("button.status")).to_have_text("Live")


def test_a_wrong_query_says_what_is_wrong(visit: Visit) -> None:
    page = visit("query")
    run_sql(page, "SELECT nonsense FROM python.torch_steps")
    expect(page.locator(".failure")).to_contain_text("nonsense")


def test_a_hundred_thousand_rows_scroll(visit: Visit) -> None:
    page = visit("query")
    run_sql(page, "SELECT i AS counter, 'row ' || i AS name FROM range(100000) r(i)")
    expect(page.locator(".toolbar [role=status]")).to_contain_text("100 000 rows")
    assert page.locator(".grid-row").count() < 200
    took_ms = page.evaluate(
        """async () => { const grid = document.querySelector('.grid'); const at = performance.now();
             grid.scrollTop = grid.scrollHeight; await new Promise(requestAnimationFrame);
             await new Promise(requestAnimationFrame); return performance.now() - at; }"""
    )
    expect(page.locator(".grid-cell", has_text=re.compile("^row 99999$"))).to_be_visible()
    assert took_ms < 1000
    page.get_by_role("columnheader", name="counter").get_by_role("button").click()
    page.get_by_role("columnheader", name="counter").get_by_role("button").click()
    page.evaluate("document.querySelector('.grid').scrollTop = 0")
    expect(page.locator(".grid-canvas .grid-cell").first).to_have_text("99999")


def test_results_are_drawn_and_downloaded(visit: Visit) -> None:
    page = visit("query")
    run_sql(page, "SELECT step, duration FROM python.torch_steps ORDER BY step LIMIT 50")
    page.get_by_role("tab", name="Chart").click()
    expect(page.locator("figure.chart")).to_have_attribute("data-points", re.compile(r"[1-9]"))
    picture(page, "query")
    with page.expect_download() as download:
        page.get_by_label("Download").select_option("csv")
    assert download.value.path().read_text().startswith("step,duration\n")
    with page.expect_download() as download:
        page.get_by_label("Download").select_option("parquet")
    assert download.value.path().read_bytes()[:4] == b"PAR1"


def test_tables_are_described_and_previewed(visit: Visit) -> None:
    page = visit("tables", table="python.gc")
    expect(page.locator(".table-detail")).to_contain_text("Runs of the garbage collector")
    expect(page.locator(".grid-canvas .grid-row").first).to_be_visible()
    page.get_by_label("Filter tables").fill("torch_tr")
    page.get_by_role("option", name="python.torch_trace").click()
    expect(page.locator(".grid-head")).to_contain_text("operation_name")
    picture(page, "tables")


def test_the_console_evaluates_in_the_job(visit: Visit) -> None:
    page = visit("console")
    code = page.get_by_label("Python code")
    put(code, "import sys; print('<b>' + str(6 * 7)); sys.modules['__main__'].TITLE")
    code.press("Enter")
    expect(page.locator(".console-entry")).to_contain_text("<b>42")
    expect(page.locator(".console-entry .value")).to_contain_text(HOSTILE)
    put(code, "1/0")
    code.press("Enter")
    expect(page.locator(".console-entry .error")).to_contain_text("ZeroDivisionError")


def test_the_console_shows_what_is_printed_while_the_code_runs(visit: Visit) -> None:
    page = visit("console")
    code = page.get_by_label("Python code")
    put(code, "import time; print('<i>first')\nwhile True: time.sleep(0.01)\n\n")
    code.press("Enter")
    expect(page.locator(".console-entry .output")).to_have_text("<i>first\n")
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    stop.click()
    expect(page.locator(".console-entry .error")).to_contain_text("KeyboardInterrupt", timeout=15_000)
    expect(page.locator(".console-entry .output")).to_have_text("<i>first\n")  # once


def test_a_console_without_a_websocket_evaluates_too(visit: Visit) -> None:
    page = visit("console")
    refused = "class { constructor() { setTimeout(() => this.onclose()); } close() {} }"
    page.evaluate(f"() => {{ window.WebSocket = {refused}; }}")
    code = page.get_by_label("Python code")
    put(code, "print(6 * 7)")
    code.press("Enter")
    expect(page.locator(".console-entry .output")).to_have_text("42\n")


def test_the_console_is_a_prompt(visit: Visit) -> None:
    page = visit("console")
    code = page.get_by_label("Python code")
    put(code, "answer = 6 * 7")
    code.press("Enter")
    expect(page.locator(".console-entry")).to_have_count(1)
    put(code, "for i in range(2):")
    code.press("Enter")
    expect(page.locator(".console-line")).to_contain_text("...")
    code.press_sequentially("print(answer + i)")
    assert typed(code) == "for i in range(2):\n    print(answer + i)"
    code.press("Shift+Enter")
    code.press("Enter")
    expect(page.locator(".console-entry").last).to_contain_text("42\n43")
    code.press("ArrowUp")
    assert typed(code).startswith("for i in range(2):")
    put(code, "answ")
    code.press("Tab")
    expect(code.locator(".cm-line")).to_have_text("answer")
    put(code, "answer.bit_")
    code.press("Tab")
    choices = page.locator(".cm-tooltip-autocomplete [role=option]")
    expect(choices).to_have_text(["bit_count", "bit_length"])
    page.wait_for_timeout(100)  # what is pressed as the list opens was meant for the text
    code.press("ArrowDown")
    code.press("Enter")
    expect(code.locator(".cm-line")).to_have_text("answer.bit_length")
    put(code, "print('it runs')\nwhile True: pass\n\n")
    code.press("Enter")
    expect(page.locator(".console-entry .output").last).to_have_text("it runs\n", timeout=15_000)
    code.press("Control+c")
    expect(page.locator(".console-entry .error").last).to_contain_text("KeyboardInterrupt", timeout=15_000)
    picture(page, "console")


def test_settings_are_explained_and_changed(visit: Visit, job: int) -> None:
    page = visit("settings")
    rate = page.get_by_label("probing.eval.timeout")
    expect(rate).to_have_value("10")
    rate.fill("11")
    rate.press("Enter")
    expect(page.locator(".setting", has_text="probing.eval.timeout")).to_contain_text("set")
    picture(page, "settings")
    rate.fill("10")
    rate.press("Enter")
    expect(page.locator(".setting", has_text="probing.eval.timeout").get_by_role("button")).to_be_disabled()


def test_every_page_fits_a_telephone(visit: Visit) -> None:
    page = visit("overview")
    page.set_viewport_size({"width": 400, "height": 800})
    for name in PAGES:
        visit(name)
        page.locator(f"main {DATA.get(name, '.page > *')}").first.wait_for(state="attached")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 400, f"{name} is {width} px wide"
        picture(page, f"{name}-narrow")


def test_keys_lead_through_the_pages(visit: Visit) -> None:
    page = visit("overview")
    page.keyboard.press("2")
    expect(page.locator("h1")).to_have_text("Stacks")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keys")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("p")
    expect(page.locator("button.status")).to_have_text("Paused")


def test_a_hidden_page_asks_nothing(visit: Visit) -> None:
    page = visit("stacks")
    expect(page.locator(".thread").first).to_be_visible()
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true})")
    page.wait_for_timeout(1200)  # what is under way ends
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2500)
    assert asked == []


def test_a_server_that_is_gone_is_told_and_waited_for(visit: Visit) -> None:
    page = visit("stacks")
    expect(page.locator(".thread").first).to_be_visible()
    page.route("**/api/v1/**", lambda route: route.abort())
    expect(page.locator(".failure")).to_contain_text("probingd does not answer")
    expect(page.locator("button.status")).to_have_text("No answer", timeout=15_000)
    assert page.locator(".thread").count() > 0, "what was seen last stays"
    page.unroute("**/api/v1/**")
    expect(page.locator(".failure")).to_have_count(0, timeout=30_000)
    expect(page.locator("button.status")).to_have_text("Live", timeout=30_000)


def test_a_page_without_data_says_how_to_get_it(visit: Visit) -> None:
    page = visit("training", target=1)
    expect(page.locator(".state").first).to_be_visible()
