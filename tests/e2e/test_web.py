"""The page of probingd in a real browser, about a real training on two ranks: every page shows true data and
nothing is loaded from elsewhere. Names in the job try to be HTML."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import BIN, HOSTILE, JOB, RESULTS, ROOT, probing, until
from playwright.sync_api import Locator, Page, expect

PAGES = (
    "overview",
    "stacks",
    "flame",
    "training",
    "timeline",
    "stalls",
    "system",
    "memory",
    "profile",
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
    "flame": "canvas.flame[data-boxes]",
    "memory": ".asked",
    "training": ".facts",
    "timeline": "canvas.timeline",
    "stalls": ":is(.stall, .state.empty)",
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


def test_the_overview_has_a_card_for_the_job_and_one_click_shows_a_rank(visit: Visit, job: int) -> None:
    page = visit("overview", target=None)
    card = page.locator(f".job-card[data-job='{JOB}']")
    expect(card).to_contain_text("target_web.py")
    expect(card.locator(".facts")).to_contain_text("Steps/s", timeout=15_000)
    expect(card.locator("svg.sparkline polyline")).to_be_visible()
    expect(card.locator(".state-badge")).not_to_have_text("Checking", timeout=60_000)
    picture(page, "overview")
    card.get_by_role("link", name="rank 0").click()
    expect(page.locator(".facts").first).to_contain_text("Threads")
    expect(page.locator(".chart").first).to_have_attribute(
        "data-points", re.compile(r"[1-9]"), timeout=15_000
    )
    assert f"target={job}" in page.url
    for name in ("Trace", "Eject", "Profile", "Leaks", "Flame graph"):
        expect(page.locator(".actions").get_by_text(name, exact=True)).to_be_visible()


STUCK = "import time\ndef all_reduce():\n    time.sleep(600)\nall_reduce()"


@contextlib.contextmanager
def running(code: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_process_without_a_probe_is_injected_ejected_and_told_when_it_ends(visit: Visit) -> None:
    with running(STUCK) as stuck:
        page = visit("overview", target=None)
        row = page.locator("table.unprobed tr", has_text=str(stuck.pid))
        expect(row).to_contain_text("all_reduce", timeout=20_000)
        visit("console", target=stuck.pid)
        expect(page.locator(".state.empty")).to_contain_text("has no probe")
        page.get_by_role("button", name="Inject", exact=True).click()
        code = page.get_by_label("Python code")  # the page that the probe was missing for
        expect(code).to_be_visible(timeout=20_000)
        visit("overview", target=stuck.pid)
        expect(page.locator(".where")).to_contain_text("all_reduce")
        page.get_by_role("button", name="Eject").click()
        expect(page.locator(".actions").get_by_role("button", name="Inject", exact=True)).to_be_visible(
            timeout=20_000
        )
        stuck.kill()
        stuck.wait()
        expect(page.locator("button.status")).to_have_text("Ended", timeout=20_000)


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
    expect(page.locator(".source").first).to_contain_text("for step in range")


def test_native_frames_can_be_asked_for(visit: Visit) -> None:
    page = visit("stacks")
    page.get_by_label("Native frames").check()
    expect(page.locator(".frame.native").first).to_be_visible(timeout=20_000)
    assert "native=1" in page.url


# On a machine that is busy with other things no thread may run for as long as a recording takes.
WAITING_TOO = {"shown": "all"}


def record(page: Page) -> Locator:
    """As somebody who waits for the picture of a recording."""
    button = page.get_by_role("button", name="Record", exact=True)
    expect(button).to_be_enabled(timeout=30_000)  # the one on arrival
    with page.expect_response("**/api/v1/profile", timeout=30_000):
        button.click()
    expect(button).to_be_enabled(timeout=30_000)
    return page.locator("canvas.flame:visible").first


def test_a_flame_graph_is_there_on_arrival_and_is_recorded_searched_and_zoomed(visit: Visit) -> None:
    page = visit("flame", seconds=1, **WAITING_TOO)
    canvas = page.locator("canvas.flame").first
    expect(canvas).to_have_attribute("data-focus", "all", timeout=20_000)
    record(page)
    page.get_by_placeholder("Search").fill("train_step")
    expect(canvas).to_have_attribute("data-hits", re.compile(r"[1-9]"))
    expect(page.locator(".toolbar [role=status]").first).to_contain_text("matched")
    expect(page.locator(".functions")).to_contain_text("target_web.py")
    picture(page, "flame")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(canvas).not_to_have_attribute("data-focus", "all")
    expect(page.locator(".tip:visible")).to_contain_text("samples")
    page.keyboard.press("Escape")
    expect(canvas).to_have_attribute("data-focus", "all")


def boxes(page: Page) -> int:
    return int(page.locator("canvas.flame").first.get_attribute("data-boxes") or 0)


def test_classes_of_frames_are_hidden_and_one_function_is_seen_alone(visit: Visit) -> None:
    page = visit("flame", seconds=0.5)
    page.route("**/api/v1/profile", lambda route: route.fulfill(json=made_up_profile(4, 3)))
    record(page)
    assert boxes(page) == 13
    entry = page.locator(".flame-legend button", has_text="your code")
    entry.click()
    expect(entry).to_have_attribute("aria-pressed", "false")
    expect(page.locator("canvas.flame").first).to_have_attribute("data-boxes", "1")
    entry.click()
    expect(page.locator("canvas.flame").first).to_have_attribute("data-boxes", "13")
    page.get_by_role("button", name="f4 (m4.py:4)").click()
    expect(page.locator(".sandwich canvas.flame").first).to_have_attribute("data-boxes", "2")  # f3 calls it
    expect(page.locator(".sandwich canvas.flame").last).to_have_attribute("data-boxes", "2")  # it calls f5
    assert "fn=f4" in page.url
    picture(page, "sandwich")
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("Order").select_option("time")
    expect(page.locator("canvas.flame").first).to_have_attribute("data-boxes", "14")  # and the thread


def test_all_ranks_of_the_job_are_recorded_together(visit: Visit) -> None:
    page = visit("flame", seconds=0.5, job_ranks=1, **WAITING_TOO)
    canvas = record(page)
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".tip:visible")).to_contain_text("rank 0")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tip:visible")).to_contain_text("rank 1")


def test_two_recordings_are_compared(visit: Visit) -> None:
    page = visit("flame", seconds=0.5, **WAITING_TOO)
    record(page)
    page.get_by_role("button", name="Set as baseline").click(timeout=20_000)
    record(page).focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".tip:visible")).to_contain_text("against the baseline")


def test_an_interval_is_compared_with_the_one_before(visit: Visit) -> None:
    page = visit("flame", live=1, interval=10, before=1, **WAITING_TOO)
    for on in (False, True):  # a link does not begin to sample: somebody does
        page.get_by_label("Continuous").set_checked(on)
    canvas = page.locator("canvas.flame").first
    expect(canvas).to_have_attribute("data-focus", "all", timeout=20_000)
    expect(page.get_by_label("Compare with the time before")).to_be_checked()
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
    record(page)
    expect(page.locator("canvas.flame").first).to_have_attribute("data-boxes", "10001")
    took_ms = page.evaluate(
        """() => { const input = document.querySelector('input[type=search]'); input.value = 'f77';
             const at = performance.now(); input.dispatchEvent(new Event('input'));
             return performance.now() - at; }"""
    )
    expect(page.locator("canvas.flame").first).to_have_attribute("data-hits", re.compile(r"[1-9]"))
    assert took_ms < 500


def test_a_flame_graph_changes_with_the_theme(visit: Visit) -> None:
    page = visit("flame", seconds=1)
    page.route("**/api/v1/profile", lambda route: route.fulfill(json=made_up_profile(10, 10)))
    record(page)
    expect(page.locator("canvas.flame").first).to_have_attribute("data-boxes", "101")
    page.evaluate("window.before = document.querySelector('canvas.flame').toDataURL()")
    is_dark = page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.emulate_media(color_scheme="light" if is_dark else "dark")
    until(page, "document.querySelector('canvas.flame').toDataURL() !== window.before")


def chart(page: Page, name: str) -> Locator:
    return page.locator("figure.chart", has=page.locator("figcaption", has_text=name)).first


def test_training_shows_steps_modules_and_losses(visit: Visit) -> None:
    page = visit("training")
    expect(page.locator(".facts").first).to_contain_text("Last step")
    expect(page.locator("table.modules")).to_contain_text("attention", timeout=20_000)
    expect(page.locator(".treemap-box").nth(2)).to_be_visible()
    for name in ("loss", "accuracy"):
        expect(chart(page, name)).to_have_attribute("data-points", re.compile(r"[1-9]"))
    picture(page, "training")
    page.get_by_label("Smoothing").select_option("0.9")
    page.get_by_label("Log axis").check()
    expect(chart(page, "loss")).to_have_attribute("data-look", "log 0.9")
    with page.expect_download() as download:
        page.get_by_role("button", name="numbers of loss").click()
    text = download.value.path().read_text()
    assert re.match(r"(step|time),loss\n[\d.]+,[\d.]+\n", text)
    with page.expect_download() as download:
        page.get_by_role("button", name="picture of loss").click()
    assert download.value.path().read_bytes()[1:4] == b"PNG"


def test_a_run_is_compared_with_the_other_rank_and_with_the_time_before(
    visit: Visit, ranks: list[int]
) -> None:
    page = visit("training", minutes=1)
    page.get_by_label("Compare with").select_option(str(ranks[1]))
    expect(chart(page, "loss").locator(".legend")).to_contain_text(f"loss of {ranks[1]}", timeout=20_000)
    expect(chart(page, "compared")).to_be_visible()
    assert f"vs={ranks[1]}" in page.url


def test_drawing_over_a_chart_chooses_the_time_which_a_link_keeps(visit: Visit) -> None:
    page = visit("system", minutes=1)
    plot = chart(page, "CPU").locator(".u-over")
    expect(plot).to_be_visible(timeout=20_000)
    box = plot.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 30, steps=4)
    page.mouse.up()
    expect(page.locator("button.status")).to_have_text("Frozen")
    assert re.search(r"from=\d{13}&to=\d{13}", page.url)
    page.get_by_role("button", name="Now").click()
    expect(page.locator("button.status")).to_have_text("Live")
    assert "from=" not in page.url


def test_pages_about_all_targets_show_each_rank(visit: Visit, ranks: list[int]) -> None:
    page = visit("training", target=None)
    expect(chart(page, "loss").locator(".legend")).to_contain_text("rank 1", timeout=20_000)
    page = visit("system", target=None, job=JOB)
    expect(chart(page, "Memory of the process").locator(".legend")).to_contain_text("rank 1", timeout=15_000)
    page = visit("timeline", target=None)
    canvas = page.locator("canvas.timeline")
    expect(canvas).to_have_attribute("data-tracks", re.compile("rank 0/Steps.*rank 1/Steps"), timeout=15_000)


def is_pass(event: dict) -> bool:
    """A pass of a step that was traced in full: of the others nobody knows when they were."""
    return event["name"] in ("forward", "backward") and "in order" not in event["args"]["detail"]


def test_the_timeline_has_groups_phases_sums_and_a_search(visit: Visit) -> None:
    page = visit("timeline", minutes=30)  # the exception was raised once, at the start
    canvas = page.locator("canvas.timeline")
    expect(canvas).to_have_attribute("data-events", re.compile(r"[1-9]\d"), timeout=20_000)
    tracks = canvas.get_attribute("data-tracks") or ""
    assert "rank 0/Steps:2" in tracks, "consecutive steps are in one row, their phases below"
    for name in ("Modules", "Collectives", "Spans", "Garbage collection", "Exceptions", "CPU", "Memory"):
        assert f"rank 0/{name}" in tracks
    page.get_by_label("Search").fill("generation")
    expect(canvas).to_have_attribute("data-found", re.compile(r"[1-9]"))
    page.get_by_label("Search").fill("")
    canvas.focus()
    before = canvas.get_attribute("data-window")
    for key in "wad":
        page.keyboard.press(key)
        expect(canvas).not_to_have_attribute("data-window", before or "")
        before = canvas.get_attribute("data-window")
    page.keyboard.press("m")
    expect(page.locator(".sums")).to_contain_text("data wait")
    picture(page, "timeline")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save for Perfetto").click()
    trace = json.loads(download.value.path().read_text())
    names = {event["name"] for event in trace["traceEvents"]}
    assert {"load", "compute", "ZeroDivisionError", "forward"} <= names
    starts = {
        track: {event["ts"] for event in trace["traceEvents"] if event.get("cat") == track and fits(event)}
        for track, fits in (("Steps", is_pass), ("Modules", lambda event: True))
    }
    assert starts["Steps"] and starts["Steps"] <= starts["Modules"], "passes are where torch made them"


def test_operators_are_profiled_and_leaks_looked_for(visit: Visit) -> None:
    page = visit("profile", n=2)
    page.get_by_role("button", name="Profile", exact=True).click()
    expect(page.locator("table.ops")).to_contain_text("aten::", timeout=60_000)
    expect(page.locator("canvas.timeline")).to_have_attribute("data-events", re.compile(r"[1-9]\d"))
    picture(page, "profile")
    visit("memory")
    page.get_by_role("button", name="Look for leaks").click()
    expect(page.locator(".asked").first).to_contain_text("As of", timeout=20_000)
    page.get_by_role("button", name="Count tensors").click()
    expect(page.locator("table.census")).to_contain_text("float32", timeout=20_000)
    picture(page, "memory")


def test_a_log_point_is_set_on_a_line_of_source(visit: Visit, job: int) -> None:
    page = visit("stacks")
    page.locator(".frame button", has_text="main").first.click()
    expect(page.locator(".source .current").first).to_be_visible()
    page.locator(".source .current .line-number").first.click()
    page.get_by_label("Expressions").fill("step")
    page.get_by_role("button", name="Log", exact=True).click()
    expect(page.locator(".log-point [role=status]")).to_contain_text("Its values", timeout=20_000)
    probing("-t", job, "debug", "remove", "all")


def test_commands_are_a_few_letters_away(visit: Visit) -> None:
    page = visit("overview", target=None)
    page.keyboard.press("Control+k")
    page.get_by_label("Go to or do").fill("timel")
    expect(page.locator(".palette [role=option]").first).to_contain_text("Timeline")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Timeline")
    page.keyboard.press("Control+k")
    page.get_by_label("Go to or do").fill(JOB)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Cluster")
    assert f"job={JOB}" in page.url


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


@contextlib.contextmanager
def small_job(folder: Path, trouble: str) -> Iterator[list[int]]:
    """Three ranks of a job without torch, of which number 1 has the trouble; its name is the folder's."""
    started = []
    program = ROOT / "tests/targets/target_rank.py"
    command = [sys.executable, program, ROOT / "python", folder, trouble, "1"]
    try:
        for rank in range(3):
            variables = {"RANK": str(rank), "WORLD_SIZE": "3", "TORCHELASTIC_RUN_ID": folder.name}
            variables["PROBING_LIBRARY"] = str(BIN / "libprobing.so")
            started.append(subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.DEVNULL))
        yield [each.pid for each in started]
    finally:
        for each in started:
            each.kill()
            each.wait()


@pytest.fixture
def stragglers(site: str, tmp_path: Path) -> Iterator[list[int]]:
    """Rank 1 makes the others wait."""
    with small_job(tmp_path, "straggler") as pids:
        yield pids


def test_a_hung_job_is_red_its_finding_leads_to_the_page_and_the_end_is_told(
    visit: Visit, tmp_path: Path
) -> None:
    page = visit("overview", target=None)
    card = page.locator(f".job-card[data-job='{tmp_path.name}']")
    with small_job(tmp_path, "deadlock") as pids:
        expect(card.locator(".state-badge")).to_have_text("Hung", timeout=60_000)
        picture(page, "hung")
        finding = card.locator(".finding.error a").first
        expect(finding).to_contain_text("rank")
        finding.click()
        expect(page.locator("h1")).to_have_text(re.compile("Stacks|Cluster"))
        visit("overview", target=pids[1])
        expect(page.locator("button.status")).to_have_text("Live")
    expect(page.locator("button.status")).to_have_text("Ended", timeout=20_000)
    visit("overview", target=None)
    expect(card.locator(".state-badge")).to_have_text("Ended", timeout=20_000)
    expect(card).to_contain_text("SIGKILL")


def test_the_cluster_page_shows_who_waits_for_whom(
    visit: Visit, stragglers: list[int], tmp_path: Path
) -> None:
    page = visit("cluster", target=None, job=tmp_path.name)
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
    assert f"target={stragglers[0]}" in page.url


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
    setting = page.locator(".setting", has_text="probing.eval.timeout")
    rate = page.get_by_label("probing.eval.timeout")
    expect(rate).to_have_value("10")
    rate.fill("11")
    rate.press("Enter")
    said = setting.locator(".setting-message")
    expect(said).to_have_text("set default: 10")
    picture(page, "settings")
    rate.fill("10")
    rate.press("Enter")
    expect(said).to_have_text("set")
    expect(setting.get_by_role("button")).to_be_disabled()


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
