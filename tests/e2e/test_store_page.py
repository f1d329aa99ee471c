"""The page with a store of many hosts as its source: a real ClickHouse, rows of real ranks."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, probing
from playwright.sync_api import expect
from test_web import Visit, picture, run_sql, stragglers, visit  # noqa: F401

sys.path.append(str(ROOT / "tests/integration"))
pytestmark = pytest.mark.skipif(not shutil.which("clickhouse-server"), reason="no ClickHouse on this machine")


@pytest.fixture(scope="module")
def store(site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where probingd sends rows, while these tests run."""
    import clickhouse

    (server,) = clickhouse.servers(tmp_path_factory.mktemp("clickhouse"), 1)
    server.start()
    try:
        probing("config", f"probing.store={server.url}", "probing.store.interval=0.5")
        yield server.url
    finally:
        probing("config", "probing.store=none")
        server.end()


def test_the_store_is_offered_and_answers(
    visit: Visit,  # noqa: F811
    store: str,
    stragglers: list[int],  # noqa: F811
    tmp_path: Path,
) -> None:
    page = visit("cluster", target=None)
    page.get_by_label("Source").select_option("store")
    page.get_by_label("Job").select_option(tmp_path.name, timeout=90_000)  # beside the one of all tests
    expect(page.locator(".rank strong")).to_have_text(["0", "1", "2"], timeout=90_000)
    assert f"job={tmp_path.name}" in page.url
    expect(page.locator("canvas.heat-map")).to_be_visible()
    assert "source=store" in page.url
    picture(page, "cluster-store")
    page = visit("query", source="store")
    run_sql(page, "SELECT rank, count() AS steps FROM python.torch_steps WHERE isNotNull(rank) GROUP BY rank")
    expect(page.locator(".grid-head")).to_contain_text("steps")
    expect(page.locator(".grid-canvas .grid-row")).to_have_count(3)
    page.get_by_label("Source").select_option("")
    run_sql(page, "SELECT 1 AS here, version() AS engine")
    expect(page.locator(".grid-canvas .grid-row")).to_contain_text(re.compile(r"v1\.\d"))
