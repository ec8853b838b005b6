"""Prices from the specification, a file, the shipped table and litellm's table."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Price, Usage
from pytest_llmprops.models.api import prices
from tests.support.backends import hide, needs


@pytest.fixture(autouse=True)
def fresh_tables() -> Iterator[None]:
    """Read the tables anew in each test."""
    cached = (prices.read_table, prices.litellm_entries, prices.litellm_table)
    for table in cached:
        table.cache_clear()
    yield
    for table in cached:
        table.cache_clear()


def known(name: str, params: Mapping[str, str] | None = None, file: Path | None = None) -> Price:
    """Return the price of a model, which must have one."""
    price = prices.price(name, params or {}, file)
    assert price is not None
    return price


def fake_litellm(folder: Path, monkeypatch: pytest.MonkeyPatch, table: str, version: str = "") -> None:
    """Put a package named litellm with this table first on the path; importing it fails."""
    if version:
        info = folder / f"litellm-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: litellm\nVersion: {version}\n")
    package = folder / "litellm"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('litellm was imported')")
    (package / "model_prices_and_context_window_backup.json").write_text(table)
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.syspath_prepend(str(folder))


def test_prices_are_per_million_tokens() -> None:
    """``price_in`` and ``price_out`` need no table; what the provider caches has its own price, where it is known."""
    usage = Usage(1_000_000, 100_000, cached_tokens=900_000, cache_write_tokens=50_000)
    price = Price(2, 10, "", 0.2, 2.5)
    assert price.of(usage) == pytest.approx(0.1 + 0.18 + 0.125 + 1)
    assert price.scaled(0.5).of(usage) == pytest.approx(price.of(usage) / 2)
    full = known("anything", {"price_in": "2", "price_out": "10"})
    assert full.of(usage) == full.scaled(1).of(usage) == pytest.approx(2 + 1)


@pytest.mark.parametrize(
    "params", [{"price_in": "1"}, {"price_in": "1", "price_out": "x"}, {"price_in": "-1", "price_out": "1"}]
)
def test_bad_prices_are_refused(params: dict[str, str]) -> None:
    """A single price of the two, a word and a negative number are usage errors."""
    with pytest.raises(UsageError, match="price_in and price_out"):
        prices.price("m", params)


def test_installed_litellm_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table is read from its file, without importing it; both tables fill the gaps of the other."""
    numbers = {"input_cost_per_token": 7e-6, "output_cost_per_token": 8e-6}
    table = {"sample_spec": numbers, "gpt-4o": numbers, "only-here": numbers, "free-words": {"mode": "chat"}}
    fake_litellm(tmp_path, monkeypatch, json.dumps(table), "0.1.0")
    assert set(prices.litellm_entries()) == {"gpt-4o", "only-here", "free-words"}
    assert known("gpt-4o") == known("only-here") == Price(7, 8, "litellm 0.1.0")
    assert known("gpt-4o-mini") != known("only-here")
    assert prices.price("free-words", {}) is None
    assert prices.price("unknown", {}) is None


def test_damaged_table_of_litellm_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is not JSON leaves the prices of the shipped one, instead of failing the run."""
    fake_litellm(tmp_path, monkeypatch, "{")
    assert prices.litellm_entries() == {}
    assert prices.price("gpt-4o", {}) is not None


def test_common_models_have_a_dated_price_without_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped table has 60 to 100 models of the large providers; each price has the table's date."""
    hide(monkeypatch, "litellm")
    names = list(prices.read_table(prices.SHIPPED))
    assert 60 <= len(names) <= 100
    assert {name.partition("/")[0] for name in names if "/" in name} == {
        "deepseek", "gemini", "groq", "mistral", "together_ai", "xai",
    }  # fmt: skip
    wanted = ("gpt-4o", "gpt-4o-mini", "claude-sonnet-4-5", "gemini/gemini-2.5-flash", "command-r-08-2024")
    for price in map(known, wanted):
        assert 0 < price.input < price.output < 1e3
        assert re.fullmatch(r"table of \d{4}-\d\d-\d\d", price.source)
        assert price.cached is None or price.cached < price.input
    claude = known("claude-sonnet-4-5")
    assert claude.written == pytest.approx(1.25 * claude.input)
    assert re.search(r"litellm \d.*MIT license", json.loads(prices.SHIPPED.read_text())["source"])


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("openai/gpt-4o", "gpt-4o"),
        ("ft:gpt-4o-mini-2024-07-18:my-org::abc", "ft:gpt-4o-mini-2024-07-18"),
    ],
)
def test_names_with_provider_and_fine_tuned_models_have_a_price(name: str, listed: str) -> None:
    """litellm lists these under a part of the name."""
    assert known(name) == known(listed)


def test_file_of_prices_takes_precedence(tmp_path: Path) -> None:
    """The user's file comes before the tables, and price_in and price_out before the file."""
    file = tmp_path / "mine.json"
    file.write_text('{"date": "2026-01-02", "usd_per_million_tokens": {"gpt-4o": [1, 2]}}', encoding="utf-8")
    price = known("gpt-4o", file=file)
    assert price == Price(1.0, 2.0, "mine.json, 2026-01-02")
    stated = known("gpt-4o", {"price_in": "3", "price_out": "4"}, file)
    assert stated == Price(3.0, 4.0, "--model")
    assert known("gpt-4o-mini", file=file) == known("gpt-4o-mini")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot read"),
        ("{", "is not JSON"),
        ("[]", "has no usd_per_million_tokens"),
        ('{"usd_per_million_tokens": {"m": [1]}}', "'m' must have two to four numbers"),
        ('{"usd_per_million_tokens": {"m": [1, -1]}}', "'m' must have two to four numbers"),
        ('{"usd_per_million_tokens": {"m": [true, 1]}}', "'m' must have two to four numbers"),
    ],
)
def test_bad_file_of_prices_is_refused(text: str | None, problem: str, tmp_path: Path) -> None:
    """The error names the file, and the model if one is at fault."""
    file = tmp_path / "mine.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=problem) as raised:
        prices.price("m", {}, file)
    assert str(file) in str(raised.value)


def test_table_is_renewed_from_litellm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new table has the same names, the prices of litellm, its version, and can be read."""
    numbers = {"input_cost_per_token": 7e-6, "output_cost_per_token": 8.5e-6}
    caches = {"cache_read_input_token_cost": 7e-7, "cache_creation_input_token_cost": 8.75e-6}
    unpriced = {"cache_creation_input_token_cost": 0.0}
    listed = {"gpt-4o": numbers, "gpt-5": numbers | caches, "o3": numbers | unpriced}
    fake_litellm(tmp_path, monkeypatch, json.dumps(listed), "9999.0")
    file = tmp_path / "new.json"
    file.write_text(prices.renewed_table("2030-01-02"), encoding="utf-8")
    table = prices.read_table(file)
    source = "new.json, 2030-01-02"
    assert list(table) == list(shipped := prices.read_table(prices.SHIPPED))
    assert table["gpt-4o"] == table["o3"] == Price(7.0, 8.5, source)
    assert table["gpt-5"] == Price(7.0, 8.5, source, 0.7, 8.75)
    assert table["gpt-4o-mini"] == replace(shipped["gpt-4o-mini"], source=source)
    assert json.loads(file.read_text(encoding="utf-8"))["source"].startswith("litellm 9999.0 (")


def test_table_is_not_renewed_without_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    hide(monkeypatch, "litellm")
    with pytest.raises(UsageError, match=r"pip install 'pytest-llmprops\[litellm\]'"):
        prices.renewed_table("2030-01-02")


@needs("litellm", extra="litellm")
def test_installed_litellm_has_a_table() -> None:
    """The installed litellm has its table in the expected place, with a price for a well-known model."""
    price = known("gpt-4o-2024-05-13")
    assert 0 < price.input < price.output < 1e3
