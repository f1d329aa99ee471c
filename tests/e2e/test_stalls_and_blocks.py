"""Stalls and GPU blocks in the page: what a program of ours did wrong stands there by its line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from conftest import TARGETS, TORCH, probing, program, until
from playwright.sync_api import expect
from test_web import Visit, picture, visit  # noqa: F401

LIMIT = "probing.stalls.limit"


def test_a_stall_leads_from_its_line_to_what_the_thread_did(visit: Visit, tmp_path: Path) -> None:  # noqa: F811
    page = visit("stalls", target=None)
    expect(page.locator(".state.empty")).to_contain_text("Stalls are not watched for")
    page.get_by_role("button", name="Watch for stalls").click()
    expect(page.locator(".state.empty [role=status]")).to_contain_text("are kept from now on")
    command = [sys.executable, TARGETS / "target_stalls.py", "loop", 12, tmp_path / "truth", 0.4, 0.6]
    try:
        with program(command, "stalls") as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            probing("-t", process.pid, "inject")
            visit("stalls", target=process.pid)
            lines = page.locator("table.stall-lines tbody tr")
            expect(lines.first).to_contain_text("target_stalls.py:")
            one = page.locator(
                ".stall", has_text="event loop"
            ).last  # the first: it stays the last of the list
            one.locator("summary").first.click()
            expect(one.locator(".stack-lines").first).to_contain_text("target_stalls.py:")
            expect(one.locator(".blamed")).to_contain_text("target_stalls.py:")
            picture(page, "stalls")
            one.get_by_role("link", name="Flame graph of the stall").click()
            expect(page.locator("h1")).to_have_text("Flame graph")
            canvas = page.locator("canvas.flame").first
            expect(canvas).to_have_attribute("data-boxes", re.compile(r"[1-9]"))
            expect(page.locator(".functions")).to_contain_text("target_stalls.py")
            expect(page.locator("button.status")).to_have_text("Frozen")
            canvas.focus()
            page.keyboard.press("ArrowDown")
            expect(page.locator(".tip:visible")).to_contain_text(" ms, ")
            page.get_by_role("button", name="Now", exact=True).click()
            expect(page.locator("button.status")).to_have_text("Live")
            assert "stall=" not in page.url
            visit("timeline", target=process.pid, minutes=5)
            timeline = page.locator("canvas.timeline")
            expect(timeline).to_have_attribute("data-tracks", re.compile("/Stalls:"))
    finally:
        probing("config", f"{LIMIT}=0")


def test_a_flame_graph_of_a_time_that_is_over_has_its_samples(visit: Visit, job: int) -> None:  # noqa: F811
    page = visit("system", minutes=1)
    until(page, "document.querySelector('figure.chart')?.dataset.points > 3")
    now = int(page.evaluate("Date.now()"))
    visit("flame", **{"from": now - 60_000, "to": now})
    expect(page.locator(".functions")).to_contain_text("target_web.py")
    expect(page.locator("button.status")).to_have_text("Frozen")
    visit("flame", **{"from": 1_600_000_000_000, "to": 1_600_000_001_000})
    expect(page.locator(".state.empty")).to_contain_text("Nothing was sampled in this time")


def test_the_blocks_of_a_gpu_are_there_with_who_allocated_them(visit: Visit, tmp_path: Path) -> None:  # noqa: F811
    """Torch's own allocator history, on a stand-in for the GPU below it."""
    with program([TORCH, TARGETS / "target_gpu_memory.py", tmp_path], "gpu") as process:
        page = visit("overview", target=None)
        while not (tmp_path / "ready").exists():
            assert process.poll() is None
            page.wait_for_timeout(100)
        probing("-t", process.pid, "inject")
        visit("memory", target=process.pid)
        page.get_by_role("button", name="Read GPU blocks").click()
        holders = page.locator("table.holders").first
        expect(holders).to_contain_text("remember (target_gpu_memory.py:")
        expect(page.locator(".gpu-device")).to_have_count(2)
        expect(page.locator("canvas.block-map").first).to_have_attribute(
            "data-blocks", re.compile(r"[1-9]\d")
        )
        holders.locator("summary").first.click()
        expect(holders.locator(".stack-lines").first).to_contain_text("target_gpu_memory.py")
        picture(page, "gpu-blocks")
        visit("overview", target=process.pid)
        visit("memory", target=process.pid)
        expect(page.locator(".gpu-device")).to_have_count(2)  # what was read last is there on arrival
