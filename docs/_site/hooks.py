"""MkDocs hooks: pages outside of docs/, links to files, generated lists, llms.txt, and names for screen readers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

from pytest_llmprops import report_kit
from pytest_llmprops.cli.main import parser
from pytest_llmprops.plugin.options import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
#: repository files that are also pages of the site, under the same path
PAGES = (
    "AGENTS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "action.yml",
    "pytest_llmprops/cli/project/model-upgrade.yml",
)
#: where links to all other files of the repository lead
REPOSITORY = "https://github.com/pytest-llmprops/pytest-llmprops/blob/main/"


def on_files(files: Files, *, config: Any) -> Files:
    """Add the repository's own pages to the site."""
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_nav(nav: Navigation, *, config: Any, files: Files) -> Navigation:
    """Add llms.txt, the list of all pages for language models (https://llmstxt.org)."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for item in nav.items:
        is_section = isinstance(item, Section)
        lines += ["", f"## {item.title}", ""] if is_section else [""]
        lines += [
            _entry(page) for page in (item.children if is_section else [item]) if isinstance(page, Page)
        ]
    files.append(File.generated(config, "llms.txt", content="\n".join(lines) + "\n"))
    return nav


def _entry(page: Page) -> str:
    """Return the link to a page, with the first sentence of its text, if the page begins with text."""
    paragraphs = page.file.content_string.split("\n\n")
    text = next((one for one in paragraphs if not one.startswith("#")), "")
    first = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split())).partition(". ")[0].rstrip(".:")
    return f"- [{page.title}]({page.url})" + (f": {first}" if re.match(r"\w", first) else "")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Fill in generated lists, and rewrite links between docs/ and the rest of the repository."""
    for name, lines in (("options", _options), ("commands", _commands), ("report_kit", _report_kit)):
        if f"<!-- {name} -->" in markdown:
            markdown = markdown.replace(f"<!-- {name} -->", "\n".join(lines()))
    if page.file.src_uri in PAGES:
        return re.sub(r"\]\(docs/", "](", markdown)

    def linked(match: re.Match[str]) -> str:
        path = match[1].partition("#")[0]
        return f"]({match[1]})" if path in PAGES else f"]({REPOSITORY}{match[1]})"

    return re.sub(r"\]\(\.\./([\w-][^)]*)\)", linked, markdown)


def _options() -> Iterator[str]:
    """Yield the list of all options, and of the settings that are only ini keys."""
    for option in OPTIONS:
        name = option.names[0]
        shown = name if option.is_flag else f"{name} {option.metavar}"
        if option.is_ini_only:
            shown = f"{option.dest} = {option.metavar}"
        yield f"- `{shown}`: {option.help}"


def _commands() -> Iterator[str]:
    """Yield the list of all commands and their subcommands, except those of benchmarks."""
    yield from _commands_of(parser([]), "llmprops")


def _commands_of(command: argparse.ArgumentParser, name: str) -> Iterator[str]:
    for action in command._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for choice in action._choices_actions:  # noqa: SLF001
                yield f"- `{name} {choice.dest}`: {choice.help}"
                yield from _commands_of(action.choices[choice.dest], f"{name} {choice.dest}")


def _report_kit() -> Iterator[str]:
    """Yield the directives that document the public report kit."""
    for name in sorted(report_kit.__all__):
        yield f"::: pytest_llmprops.report_kit.{name}\n"


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Mend the theme's markup for screen readers, and let its search from the disk need no network."""
    return _accessible(_without_network(output, page.url))


def on_post_template(output: str, *, template_name: str, config: Any) -> str:
    """Mend the theme's markup of the page for unknown addresses."""
    return _accessible(_without_network(output, template_name)) if template_name == "404.html" else output


def _without_network(output: str, url: str) -> str:
    """Replace the script that the theme's plugin ``offline`` loads from the network by that of this site."""
    up = "../" * url.count("/")
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{up}assets/search.js")


def _accessible(output: str) -> str:
    # mkdocs-material 9.8: each part of the table of contents is a landmark, some with the same name; the search dialog
    # has no name; the hidden inputs for the colour scheme take the focus. Markdown makes the empty corner of a table a
    # heading.
    output = re.sub(r'<nav class="md-nav" aria-label="[^"]*">', '<nav class="md-nav" role="none">', output)
    output = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", output)
    output = output.replace('"search" role="dialog"', '"search" role="dialog" aria-label="Search"')
    return re.sub(
        r'(class="md-option"[^>]*?) aria-hidden="true"', r'\1 aria-hidden="true" tabindex="-1"', output
    )
