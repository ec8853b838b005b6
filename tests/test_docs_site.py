"""The documentation site in headless Chromium."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Scheme, accessibility_problems, served
from tests.support.runs import ROOT

#: the start, a tutorial, a reference from docstrings, a suite with tables, and how-to pages with wide tables and code
PAGES = ("index", "runs", "report-kit", "dtails", "gate", "papers")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site with these pages alone; yield its address."""
    config = pytest.importorskip("mkdocs.config")
    build = pytest.importorskip("mkdocs.commands.build").build
    folder = tmp_path_factory.mktemp("site")
    kept = "".join(f"!/{page}.md\n" for page in PAGES)
    # The theme's search imports jieba, whose patterns have invalid escape sequences.
    with warnings.catch_warnings(action="ignore"):
        settings = config.load_config(
            str(ROOT / "mkdocs.yml"),
            site_dir=str(folder),
            strict=False,  # links lead to pages that are not built
            nav=[{page: f"{page}.md"} for page in PAGES],
            exclude_docs=f"*.md\n{kept}_site/",
        )
        settings.plugins.on_startup(command="build", dirty=False)
        build(settings)
    with served(Path(folder)) as address:
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", [*PAGES, "404"])
def test_the_site_is_accessible(site: str, browser_page: Any, page: str, scheme: Scheme) -> None:
    """Axe finds nothing on a page."""
    # The theme reads the scheme when it loads a page.
    browser_page.emulate_media(color_scheme=scheme)
    browser_page.goto(f"{site}/{page}.html")
    browser_page.wait_for_load_state("networkidle")
    colours = browser_page.locator("body").get_attribute("data-md-color-scheme")
    assert colours == ("slate" if scheme == "dark" else "default")
    assert accessibility_problems(browser_page, [scheme]) == []
    assert all(url.startswith(site) for url in browser_page.requests_seen)
