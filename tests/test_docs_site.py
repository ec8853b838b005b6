"""The documentation site in headless Chromium."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Scheme, accessibility_problems, served
from tests.support.runs import ROOT

PAGES = tuple(sorted(path.stem for path in (ROOT / "docs").glob("*.md")))


def _build(folder: Path) -> None:
    """Build the site as ``make docs`` does."""
    config = pytest.importorskip("mkdocs.config")
    build = pytest.importorskip("mkdocs.commands.build").build
    # The theme's search imports jieba, whose patterns have invalid escape sequences.
    with warnings.catch_warnings(action="ignore"):
        settings = config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
        settings.plugins.on_startup(command="build", dirty=False)
        build(settings)


# One test, because each process that runs tests would build the site.
def test_every_page_of_the_site_is_accessible(tmp_path: Path, browser_page: Any) -> None:
    """Axe finds nothing on any page, in light and in dark colours, and no page leaves the site."""
    _build(tmp_path)
    # The theme keeps the scheme of the page before.
    browser_page.add_init_script("localStorage.clear()")
    schemes: tuple[tuple[Scheme, str], ...] = (("light", "default"), ("dark", "slate"))
    problems: dict[str, list[str]] = {}
    with served(tmp_path) as site:
        for page in (*PAGES, "404"):
            for scheme, colours in schemes:
                # The theme reads the scheme when it loads a page.
                browser_page.emulate_media(color_scheme=scheme)
                browser_page.goto(f"{site}/{page}.html")
                browser_page.wait_for_load_state("load")
                assert browser_page.locator("body").get_attribute("data-md-color-scheme") == colours
                if found := accessibility_problems(browser_page, [scheme]):
                    problems[f"{page} {scheme}"] = found
        assert all(url.startswith(site) for url in browser_page.requests_seen)
    assert problems == {}
