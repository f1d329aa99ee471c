"""Pictures of the web page for the README and the docs: docs/images/web-*.png.

Run by `make screenshots`: a job is started, every page is visited while it runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from urllib.parse import quote

from conftest import BIN, ROOT, served
from playwright.sync_api import Page, expect, sync_playwright

IMAGES = ROOT / "docs/images"
WARM_UP_S = float(os.environ.get("WARM_UP", "45"))  # so that the charts have something to show
SQL = quote(
    """SELECT step, data_wait * 1000 AS data_wait_ms,
  forward * 1000 AS forward_ms, backward * 1000 AS backward_ms
FROM python.torch_steps
ORDER BY step DESC
LIMIT 300"""
)

# name → (theme, address, what is done before the picture is taken)
PICTURES = {
    "overview": ("light", "overview?target={pid}", None),
    "stacks": ("light", "stacks?target={pid}", None),
    "flame": ("light", "flame?target={pid}&seconds=3&native=1", "record"),
    "training": ("dark", "training?target={pid}&minutes=1", None),
    "timeline": ("dark", "timeline?target={pid}&seconds=10", "zoom"),
    "query": ("light", "query?target={pid}&view=chart&q=" + SQL, "run"),
}


def take(page: Page, name: str, address: str, action: str | None) -> None:
    page.goto(address)
    expect(page.locator(f".page-{name}")).to_be_visible()
    if action == "record":
        page.get_by_role("button", name="Record").click()
        expect(page.locator("canvas.flame")).to_have_attribute("data-focus", "all", timeout=20_000)
    if action == "run":
        page.get_by_role("button", name="Run", exact=True).click()
    if action == "zoom":
        expect(page.locator("canvas.timeline")).to_be_visible()
        page.wait_for_timeout(2000)
        page.locator("canvas.timeline").focus()
        for key in ("+",) * 8:
            page.keyboard.press(key)
    expect(page.locator(".state.loading")).to_have_count(0)
    page.wait_for_timeout(3000)  # two rounds of data
    page.screenshot(path=IMAGES / f"web-{name}.png")


def main() -> int:
    IMAGES.mkdir(parents=True, exist_ok=True)
    job = subprocess.Popen(
        ["python3", "target_job.py", "../../python", "prefetch"],  # no folder of this machine in a picture
        cwd=ROOT / "tests/targets",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PROBING_LIBRARY": str(BIN / "libprobing.so")},
    )
    try:
        assert job.stdout is not None and job.stdout.readline() == b"ready\n"
        with served() as site, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
            )
            browser.new_page().goto(f"{site}#/overview")  # probingd begins to measure
            time.sleep(WARM_UP_S)
            for name, (theme, address, action) in PICTURES.items():
                page = browser.new_page(color_scheme=theme, viewport={"width": 1280, "height": 800})
                take(page, name, f"{site}#/{address.format(pid=job.pid)}", action)
                page.close()
            browser.close()
    finally:
        job.kill()
        job.wait()
    for path in sorted(IMAGES.glob("web-*.png")):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
