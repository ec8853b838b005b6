"""The documentation site in headless Chromium."""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from pytest_llmprops import report_kit
from pytest_llmprops.plugin.options import OPTIONS
from tests.support.browser import accessibility_problems, served
from tests.support.runs import ROOT

PAGES = (*sorted(path.stem for path in (ROOT / "docs").glob("*.md")), "404")
#: the documented objects after the third one have the markup of those before them, and thousands of elements
REPEATED = " ~ ".join([".doc-object"] * 4)
#: gives the page the colours of the system's scheme when this changes, at once; the theme does so when it loads a page
FOLLOW_SCHEME = """() => {
    document.head.insertAdjacentHTML("beforeend", "<style>* { transition: none !important; }</style>");
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.onchange = () => { document.body.dataset.mdColorScheme = dark.matches ? "slate" : "default"; };
}"""
#: shows the contents of another page, without some elements
SHOW = """async ([url, without]) => {
    const page = new DOMParser().parseFromString(await (await fetch(url)).text(), "text/html");
    page.querySelectorAll(without).forEach((one) => one.remove());
    document.querySelector("article").replaceWith(page.querySelector("article"));
    // The theme's scripts prepare the new contents.
    document$.next(document);
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as ``make docs`` does, and return its folder."""
    config = pytest.importorskip("mkdocs.config")
    build = pytest.importorskip("mkdocs.commands.build").build
    folder = tmp_path_factory.mktemp("site")
    # The theme's search imports jieba, whose patterns have invalid escape sequences.
    with warnings.catch_warnings(action="ignore"):
        settings = config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
        settings.plugins.on_startup(command="build", dirty=False)
        build(settings)
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """Yield the address of the site."""
    with served(folder) as address:
        yield address


def test_search_works_from_the_disk(folder: Path, browser_page: Any) -> None:
    """A page that is opened as a file finds a word of another page, without the network."""
    browser_page.goto((folder / "index.html").as_uri())
    browser_page.locator(".md-search__input").click()
    browser_page.keyboard.type("certificates")
    browser_page.get_by_role("link", name="Proxies and certificates").first.wait_for()
    assert [url for url in browser_page.requests_seen if not url.startswith("file:")] == []


def test_every_page_of_the_site_is_accessible(site: str, browser_page: Any) -> None:
    """Axe finds nothing on any page, or in dark colours, and no page leaves the site.

    All pages have the same header, menu and footer, so one page gets the contents of each in turn.
    """
    browser_page.emulate_media(color_scheme="dark")
    browser_page.goto(f"{site}/index.html")
    assert browser_page.locator("body").get_attribute("data-md-color-scheme") == "slate"
    browser_page.evaluate(FOLLOW_SCHEME)
    problems = {"frame": accessibility_problems(browser_page)}
    for page in PAGES:
        browser_page.evaluate(SHOW, [f"{site}/{page}.html", REPEATED])
        # The same colours are on all pages, and these three have every kind of element.
        is_dark_too = page in ("index", "api", "options")
        problems[page] = accessibility_problems(
            browser_page, ("light", "dark") if is_dark_too else ("light",), within="article"
        )
    assert {page: found for page, found in problems.items() if found} == {}
    assert all(url.startswith(site) for url in browser_page.requests_seen)


def test_llms_txt_lists_every_page(site: str) -> None:
    """The list for language models has every page of the site, and each of its links is served."""
    text = urlopen(f"{site}/llms.txt").read().decode("utf-8")
    assert text.startswith("# pytest-llmprops\n\n> ")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.M)
    assert {f"{name}.html" for name in PAGES if name not in ("404", "index")} < set(links)
    assert {"index.html", "AGENTS.html"} < set(links)
    assert [link for link in links if urlopen(f"{site}/{link}").status != 200] == []


def test_generated_lists_are_complete(site: str) -> None:
    """The site has every option and ini key, every command, and every name of the report kit."""
    options, api = (
        html.unescape(urlopen(f"{site}/{page}.html").read().decode("utf-8")) for page in ("options", "api")
    )
    for option in OPTIONS:
        shown = f"{option.dest} = " if option.is_ini_only else option.names[0]
        assert f"<code>{shown}" in options, option.name
    for command in ("init", "runs promote", "lab eras", "data pull"):
        assert f"<code>llmprops {command}</code>" in options
    assert [name for name in report_kit.__all__ if f"pytest_llmprops.report_kit.{name}" not in api] == []
