"""Pictures of the web page: docs/images/web-*.png for the README and the docs, and build/screenshots with
every page in the sizes of SIZES, light and dark, to be looked at.

Run by `make screenshots`; screenshots.py PAGE… takes those pages only, and none for the docs.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from urllib.parse import quote

from conftest import ROOT, TARGETS, TORCH, probing, program, running_job, served, until
from playwright.sync_api import Browser, Page, expect, sync_playwright

IMAGES = ROOT / "docs/images"
SHOTS = ROOT / "build/screenshots"
SIZES = {"1440": (1440, 900), "1920": (1920, 1080), "1024": (1024, 768), "390": (390, 844)}
SQL = quote(
    """SELECT step, data_wait * 1000 AS data_wait_ms,
  forward * 1000 AS forward_ms, backward * 1000 AS backward_ms
FROM python.torch_steps
ORDER BY step DESC
LIMIT 300"""
)

# page → (address, what is done before the picture is taken); {pid} is rank 0 of the job, {stalls} and {gpu}
# are programs that have such
PAGES = {
    "overview": ("overview", None),
    "process": ("overview?target={pid}", None),
    "stacks": ("stacks?target={pid}", "open"),
    "flame": ("flame?target={pid}&native=1&seconds=2", "record"),
    "training": ("training?target={pid}&minutes=1", None),
    "timeline": ("timeline?target={pid}&seconds=10", "zoom"),
    "stalls": ("stalls?target={stalls}", "stall"),
    "system": ("system?target={pid}&minutes=1", None),
    "memory": ("memory?target={pid}&minutes=1", None),
    "blocks": ("memory?target={gpu}&minutes=1", "blocks"),
    "profile": ("profile?target={pid}", "profile"),
    "cluster": ("cluster", None),
    "query": ("query?target={pid}&view=chart&q=" + SQL, "run"),
    "tables": ("tables?table=python.torch_steps", None),
    "console": ("console?target={pid}", "eval"),
    "settings": ("settings?target={pid}", None),
}
# What the README and the docs show, and in which theme.
DOCS = {
    "overview": "light",
    "stacks": "light",
    "flame": "light",
    "training": "dark",
    "timeline": "dark",
    "query": "light",
}


def act(page: Page, action: str | None) -> None:
    if action == "record":
        page.get_by_role("button", name="Record", exact=True).click()
        expect(page.get_by_role("button", name="Record", exact=True)).to_be_enabled(timeout=30_000)
    if action == "run":
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator("figure.chart[data-points]")).to_be_visible(timeout=20_000)
    if action == "open":
        page.locator(".frame button", has_text="train_step").first.click()
        expect(page.locator(".source .current").first).to_be_visible()
    if action == "profile":
        page.get_by_role("button", name="Profile", exact=True).click()
        expect(page.locator("table.ops")).to_be_visible(timeout=60_000)
    if action == "eval":
        code = page.get_by_label("Python code")
        code.press_sequentially("import torch; torch.__version__, probing.is_active()")
        code.press("Enter")
        expect(page.locator(".console-entry")).to_have_count(1, timeout=20_000)
    if action == "stall":
        page.locator(".stall summary").first.click()
        expect(page.locator(".stack-lines").first).to_be_visible()
    if action == "blocks":
        page.get_by_role("button", name="Read GPU blocks").click()
        expect(page.locator(".gpu-device").first).to_be_visible()
        page.locator(".gpu-device").first.scroll_into_view_if_needed()
    if action == "zoom":
        page.locator("canvas.timeline").focus()
        for key in "wwww":
            page.keyboard.press(key)


@contextlib.contextmanager
def programs() -> Iterator[dict[str, int]]:
    """By their names in PAGES: one that stalls, one whose torch has a GPU (a stand-in)."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        probing("config", "probing.stalls.limit=0.05")
        commands: dict[str, list[object]] = {
            "stalls": [sys.executable, "target_stalls.py", "loop", 25, f"{folder}/truth", 0.1, 0.5],
            "gpu": [ROOT / TORCH, "target_gpu_memory.py", folder],
        }
        pids = {}
        for name, command in commands.items():
            pids[name] = stack.enter_context(program(command, name, cwd=TARGETS)).pid
            probing("-t", pids[name], "inject")
        yield pids


def visit(page: Page, site: str, pids: dict[str, int], name: str) -> None:
    address, action = PAGES[name]
    page.goto(f"{site}#/{address.format(**pids)}")
    expect(page.locator("main .page > *:visible").first).to_be_visible(timeout=20_000)
    until(page, "!document.querySelector('.state.loading')")
    act(page, action)
    page.wait_for_timeout(2500)  # a round of data


def shoot(browser: Browser, site: str, pids: dict[str, int], name: str) -> None:
    """Every size and theme of one page, visited once for each theme."""
    for theme in ("light", "dark"):
        page = browser.new_page(
            color_scheme=theme, viewport={"width": SIZES["1440"][0], "height": SIZES["1440"][1]}
        )
        visit(page, site, pids, name)
        for label, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(500)  # canvases are drawn anew
            page.screenshot(path=SHOTS / f"{name}-{label}-{theme}.png")
            if width == SIZES["390"][0]:
                assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is too wide"
        page.close()


def main(names: list[str]) -> int:
    SHOTS.mkdir(parents=True, exist_ok=True)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        served() as site,
        running_job("prefetch") as ranks,
        programs() as others,
        sync_playwright() as playwright,
    ):
        pids = {"pid": ranks[0]} | others
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        first = browser.new_page()
        first.goto(f"{site}#/training?target={ranks[0]}&minutes=1")  # probingd begins to measure
        until(first, "document.querySelector('figure.chart')?.dataset.points > 100", 120)
        for name in names or PAGES:
            shoot(browser, site, pids, name)
            print(name, flush=True)
        for name, theme in () if names else DOCS.items():
            page = browser.new_page(color_scheme=theme, viewport={"width": 1280, "height": 800})
            visit(page, site, pids, name)
            page.screenshot(path=IMAGES / f"web-{name}.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
