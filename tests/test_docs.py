"""The options, commands, modules, names, links and gate files in README and docs are valid."""

from __future__ import annotations

import importlib
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import parser
from pytest_llmprops.plugin.options import OPTIONS
from pytest_llmprops.runs.gate.file import read_gate

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "pytest_llmprops" / "cli" / "project" / "model-upgrade.yml",
]


#: pages that name no llmprops command
WITHOUT_COMMANDS = {"allure.md", "api.md", "glossary.md", "performance.md", "protocols.md", "report-kit.md"}


def _gates() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, block in enumerate(
            re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text("utf-8"), re.S | re.M)
        ):
            if "[[rule]]" in block:
                yield f"{page.name}-{number}", block


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_options_exist(page: Path) -> None:
    """Every --llm option on a page is one of the plugin's."""
    named = set(re.findall(r"--(llm-[a-z-]+[a-z])", page.read_text("utf-8")))
    assert named <= {option.name for option in OPTIONS}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_modules_exist(page: Path) -> None:
    """Every path of a module on a page is a file of the repository."""
    named = set(re.findall(r"`([\w./]+/\w+\.py)\b", page.read_text("utf-8")))
    tops = (ROOT, ROOT / "pytest_llmprops")
    assert [name for name in sorted(named) if not any((top / name).is_file() for top in tops)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_point_to_files(page: Path) -> None:
    """Every relative link leads to a file of the repository."""
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    ("page", "module"), [("api", "pytest_llmprops"), ("report-kit", "pytest_llmprops.report_kit")]
)
def test_public_names_are_in_the_reference(page: str, module: str) -> None:
    """The reference pages have every public name, and no other."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    named = re.findall(rf"^::: {re.escape(module)}\.(\w+)$", text, re.M)
    assert sorted(named) == sorted(importlib.import_module(module).__all__)


@pytest.mark.parametrize(("name", "text"), [pytest.param(n, t, id=n) for n, t in _gates()])
def test_gate_files_are_accepted(name: str, text: str, tmp_path: Path) -> None:
    """Every gate file on a page can be read."""
    path = tmp_path / "gate.toml"
    path.write_text(re.sub(r"^ {3}", "", text, flags=re.M), encoding="utf-8")
    assert read_gate(path).rules


def _commands(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of every llmprops command on a page, on separate lines and inside sentences."""
    text = page.read_text("utf-8")
    lines = re.findall(r"^ *(?:\$ )?(llmprops [a-z][^#\n]*)", text, re.M)
    for line in lines + re.findall(r"`(llmprops [a-z][^`\n]*)`", text):
        yield shlex.split(re.sub(r"\[.*?\]|\|\|.*", "", line))[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_are_accepted(page: Path) -> None:
    """Every llmprops command on a page parses; if it is only named or shortened, it exists."""
    commands = list(_commands(page))
    assert bool(commands) != (page.name in WITHOUT_COMMANDS), f"{page.name} has {len(commands)} commands"
    for words in commands:
        named = list(itertools.takewhile(re.compile("[a-z-]+").fullmatch, words))
        if words == named or "…" in words or "..." in words:
            with pytest.raises(SystemExit) as ended:
                parser().parse_args([*named, "--help"])
            assert ended.value.code == 0, words
        else:
            parser().parse_args(words)
