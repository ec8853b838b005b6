"""Prices from the specification and from litellm's table."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Usage
from pytest_llmprops.models import prices


@pytest.fixture(autouse=True)
def fresh_table() -> Iterator[None]:
    """Clear the cached table between tests."""
    prices.price_table.cache_clear()
    yield
    prices.price_table.cache_clear()


def fake_litellm(folder: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """Put a package named litellm with this table first on the path; importing it fails."""
    package = folder / "litellm"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('litellm was imported')")
    (package / "model_prices_and_context_window_backup.json").write_text(table)
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.syspath_prepend(str(folder))


def test_given_prices_are_per_million_tokens() -> None:
    """``price_in`` and ``price_out`` are per million tokens and need no table."""
    price = prices.price("anything", {"price_in": "2", "price_out": "10"})
    assert price is not None
    assert price.of(Usage(1_000_000, 500_000)) == pytest.approx(2 + 5)


@pytest.mark.parametrize(
    "params", [{"price_in": "1"}, {"price_in": "1", "price_out": "x"}, {"price_in": "-1", "price_out": "1"}]
)
def test_bad_prices_are_refused(params: dict[str, str]) -> None:
    """A single price of the two, a word and a negative number are usage errors."""
    with pytest.raises(UsageError, match="price_in and price_out"):
        prices.price("m", params)


def test_table_is_read_without_importing_litellm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is read from the package's file, and its sample entry is not a model."""
    table = {
        "sample_spec": {"input_cost_per_token": 0},
        "m-1": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6},
        "free-words": {"mode": "chat"},
    }
    fake_litellm(tmp_path, monkeypatch, json.dumps(table))
    assert set(prices.price_table()) == {"m-1", "free-words"}
    assert prices.price("m-1", {}) == prices.Price(1e-6, 2e-6)
    assert prices.price("free-words", {}) is None
    assert prices.price("unknown", {}) is None


def test_damaged_table_leaves_prices_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is not JSON leaves prices unknown instead of failing the run."""
    fake_litellm(tmp_path, monkeypatch, "{")
    assert prices.price_table() == {}


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
def test_installed_litellm_has_a_table() -> None:
    """The installed litellm has its table in the expected place, with a price for a well-known model."""
    price = prices.price("gpt-4o-2024-05-13", {})
    assert price is not None
    assert 0 < price.input_per_token < price.output_per_token < 1e-3


def test_looking_up_a_price_imports_no_sdk() -> None:
    """Reading a price loads neither litellm nor openai."""
    code = (
        "import sys; from pytest_llmprops.models.prices import price; price('gpt-4o', {});"
        "sys.exit(bool({'litellm', 'openai'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
