#!/usr/bin/env python3
"""Builds the documentation into build/site: what is in docs/, and what is made from the code.

Dead links fail: those inside by mkdocs (strict), those to files of the repository here. Pages about code
link to files beside docs/; such a link becomes the file's name, since a site has no sources in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import help_text
import library_pages
import reference_pages
import stage

ROOT = Path(__file__).resolve().parent.parent
DOCS, SOURCES = ROOT / "docs", ROOT / "build/docs-src"
MKDOCS = ROOT / "build/docs-venv/bin/mkdocs"
# Files of the repository that are pages of their own.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
GENERATED = (
    "reference/commands.md",
    "reference/settings.md",
    "reference/api.md",
    "reference/python.md",
    "reference/c.md",
)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def is_elsewhere(target: str) -> bool:
    return target.startswith(("http://", "https://", "mailto:", "#"))


def place_of(path: Path) -> str:
    """Where a file of docs/, or of PAGES, is in the site."""
    return PAGES[path.name] if path.parent == ROOT else str(path.relative_to(DOCS))


def resolve(page: Path, target: str) -> Path:
    return (page.parent / target.partition("#")[0]).resolve()


def dead_links(page: Path) -> list[str]:
    """Links of a page to files that are not there: also to pages that only the site has."""
    found = []
    for _, target in LINK.findall(page.read_text()):
        if is_elsewhere(target):
            continue
        if not resolve(page, target).exists():
            found.append(f"{page.relative_to(ROOT)}: {target}")
    return found


def rewrite(page: Path, text: str) -> str:
    """Links for the place that the page has in the site."""
    here = Path(place_of(page)).parent

    def replace(match: re.Match[str]) -> str:
        label, target = match.groups()
        if is_elsewhere(target):
            return match[0]
        path, anchor = resolve(page, target), target.partition("#")[2]
        if not path.is_relative_to(DOCS) and not (path.parent == ROOT and path.name in PAGES):
            return f"{label} (`{path.relative_to(ROOT)}`)"
        there = Path(*[".."] * len(here.parts)) / place_of(path)
        return f"[{label}]({there}{'#' + anchor if anchor else ''})"

    return LINK.sub(replace, text)


def pages() -> list[Path]:
    return [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in PAGES)]


def write_sources() -> None:
    shutil.rmtree(SOURCES, ignore_errors=True)
    shutil.copytree(DOCS, SOURCES, ignore=shutil.ignore_patterns("requirements.txt"))
    for page in pages():
        (SOURCES / place_of(page)).write_text(rewrite(page, page.read_text()))
    made = {
        "reference/commands.md": reference_pages.commands_page(help_text.read_all(stage.BIN)),
        "reference/settings.md": reference_pages.settings_page(),
        "reference/api.md": reference_pages.api_page(),
        "reference/python.md": library_pages.python_page(),
        "reference/c.md": library_pages.c_page(),
    }
    assert set(made) == set(GENERATED)
    for name, text in made.items():
        (SOURCES / name).write_text(text)


def configuration() -> str:
    """mkdocs.yml, with the pages that nobody has put into its menu at the end of it."""
    text = (ROOT / "mkdocs.yml").read_text()
    missing = [name for name in (*map(place_of, pages()), *GENERATED) if name not in text]
    return text + "".join(f"  - {name}\n" for name in missing)


def main() -> int:
    dead = [link for page in pages() for link in dead_links(page)]
    for link in dead:
        print(f"dead link: {link}")
    if dead:
        return 1
    write_sources()
    (ROOT / "build/mkdocs.yml").write_text(configuration())
    done = subprocess.run(
        [str(MKDOCS), "build", "--strict", "--quiet", "--clean", "--config-file", "build/mkdocs.yml"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    if done.returncode == 0:
        print(f"{len(list(SOURCES.rglob('*.md')))} pages in build/site; open build/site/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
