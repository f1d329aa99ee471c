"""Another site in the owner's browser: its pages, links and forms reach nothing of probingd."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

SQL = "SELECT 42 AS answer"
ATTACK = """<!doctype html><title>evil</title><script>
const site = SITE, sql = encodeURIComponent("SELECT 42 AS answer");
const paths = ["/%61pi/v1/events?sql=" + sql, "/api/v1/events?sql=" + sql, "/api%2fv1/targets", "/metrics",
  "/api/v1/targets", "/api/../api/v1/targets", "//api/v1/targets", "/api/v1/health", "/assets/x.js"];
window.reached = [];
async function attack() {
  for (const path of paths) {
    await fetch(site + path, {mode: "no-cors"}).catch(() => {});
    await new Promise((done) => {
      const image = new Image(); image.onload = image.onerror = done; image.src = site + path; });
    const script = document.createElement("script"); script.src = site + path; document.head.append(script);
  }
  for (const body of ["SELECT 42;\\n", '{"sql": "SELECT 42"}'])
    for (const path of ["/api/v1/query", "/mcp", "/"])
      await fetch(site + path, {method: "POST", mode: "no-cors", body}).catch(() => {});
  const headers = {"Content-Type": "application/json"};
  await fetch(site + "/api/v1/query", {method: "POST", body: '{"sql": "SELECT 42"}', headers})
    .then(() => window.reached.push("query"), () => {});
  await new Promise((done) => {
    const socket = new WebSocket(site.replace("http", "ws") + "/api/v1/repl?target=1");
    socket.onopen = () => { window.reached.push("socket"); done(); }; socket.onerror = done; });
  const frame = document.createElement("iframe"); frame.src = site + "/"; document.body.append(frame);
  await new Promise((done) => { frame.onload = done; });
  window.done = true;
}
</script><body><a id=page href="SITE_TEXT/#/query?q=QUERY">a link</a></body>"""


@pytest.fixture
def evil(site: str) -> Iterator[str]:
    """A page of another site that does all it can."""
    base = site.rstrip("/")
    page = (
        ATTACK.replace("SITE_TEXT", base).replace("SITE", f'"{base}"').replace("QUERY", quote(SQL)).encode()
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}/"  # another name than the site's: cross-site
    server.shutdown()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Page]:
    with browser.new_context() as context:
        yield context.new_page()


def counted(site: str, name: str) -> int:
    """What probingd says of itself; a program asks."""
    text = urllib.request.urlopen(f"{site}metrics", timeout=20).read().decode()
    return int(re.findall(rf"^probing_http_{name}_total (\d+)$", text, re.MULTILINE)[0])


def test_a_page_of_another_site_gets_nothing(visitor: Page, evil: str, site: str) -> None:
    refused = counted(site, "refused")
    answered = counted(site, "requests")
    visitor.goto(evil)
    visitor.evaluate("attack()")
    assert visitor.evaluate("window.done") and visitor.evaluate("window.reached") == []
    assert counted(site, "requests") == answered + 1, "the question for this number"
    assert counted(site, "refused") >= refused + 3 * 9 + 6 + 2


@pytest.mark.parametrize(
    "path", ["metrics", "api/v1/targets", "%61pi/v1/targets", "api/v1/events?sql=SELECT+1"]
)
def test_a_link_of_another_site_opens_only_the_page(visitor: Page, evil: str, site: str, path: str) -> None:
    visitor.goto(evil)
    with visitor.expect_navigation() as opened:
        visitor.evaluate("(address) => { location.href = address; }", site + path)
    assert opened.value is not None and opened.value.status in (400, 403), path
    with visitor.context.new_page() as by_hand:
        typed = by_hand.goto(site + "metrics")
        assert typed is not None and typed.status == 200


def test_a_link_with_sql_in_it_runs_nothing(visitor: Page, evil: str, site: str) -> None:
    asked: list[str] = []
    visitor.on(
        "request",
        lambda request: asked.append(request.post_data or "") if request.url.endswith("/query") else None,
    )
    visitor.goto(evil)
    visitor.locator("#page").click()
    expect(visitor.locator(".page-query")).to_be_visible()
    expect(visitor.get_by_label("SQL", exact=True)).to_contain_text(SQL)
    expect(visitor.locator(".past")).not_to_have_count(0)
    visitor.wait_for_timeout(1000)  # long enough for what ran at once before
    assert not any(SQL in each for each in asked)
    visitor.get_by_role("button", name="Run", exact=True).click()
    expect(visitor.locator(".grid-canvas .grid-cell")).to_have_text(["42"])
    assert any(SQL in each for each in asked)
