"""Table 1 of Li & Hao, measured again on the published templates with this project's slot words.

Table 1's MaxMatch row follows from the templates alone and is met exactly; jieba's and PKUSEG's depend on the
authors' slot words, so that the printed figure only has to lie inside our interval.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

from pytest_llmprops.benchmark_registry import find_registration
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.core.verdicts import record_of
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.published_results import find
from pytest_llmprops.engine.calls.queues import served_batch
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import find_backend, parse_spec
from tests.support.eras_cases import BENCHMARK, verdict_of

MSR = "icwb2/msr_training_words.utf8"
GROUPS = ("overall", "left", "right")
PKUSEG = Path(os.environ.get("PKUSEG_HOME", "~/.pkuseg")).expanduser() / "default"


def rows_of(published: Path, spec: str, script: str = "simplified") -> dict[tuple[str, str], Metric]:
    """Return the metrics of a segmenter on the published templates, without running pytest."""
    part = loaded(BENCHMARK, DataFolder(published, "published", find_registration("eras").tools))
    parsed = parse_spec(spec)
    model = find_backend(parsed.backend).factory(parsed, CallOptions())

    def answer(request: Request) -> Reply | BackendError:
        [result] = served_batch(model, [request])
        return result

    records = []
    for item in (item for item in part.items if item.task == "explicit"):
        verdict = verdict_of(item, part.context, "segment", answer, protocol="paper", script=script)
        records.append(record_of(item, "eras", "m", verdict, requests=[]))
    return {(row.name, row.group): row for row in BENCHMARK.metrics(records)}


def printed(model: str, metric: str, group: str) -> float:
    """Return a number of Table 1 as a fraction."""
    [results] = find(paper="eras", table="1", model=model, metric=metric, setting=group)
    return results.value


def outside(rows: Mapping[tuple[str, str], Metric], model: str) -> list[Metric]:
    """Return our metrics whose 95% interval over paradigms does not have Table 1's number."""
    names = product(("test_accuracy", "control_accuracy", "difference"), GROUPS)
    ours = [(rows[name], printed(model, *name)) for name in names]
    return [row for row, value in ours if not (row.ci_low or 0.0) <= value <= (row.ci_high or 0.0)]


def test_maxmatch_is_table_1(published: Path) -> None:
    """MaxMatch with the MSR training words gives the numbers of its row, within 0.05 points each."""
    rows = rows_of(published, f"maxmatch:{published / MSR}")
    names = list(product(("test_accuracy", "control_accuracy"), GROUPS))
    expected = [printed("MaxMatch", *name) for name in names]
    assert expected == [0.641, 0.826, 0.375, 1.0, 1.0, 1.0]
    assert [rows[name].value for name in names] == pytest.approx(expected, abs=0.0005)
    assert outside(rows, "MaxMatch") == []


def test_jieba_agrees_with_table_1_on_traditional_characters(published: Path) -> None:
    """Every number of jieba's row lies inside our interval; on simplified characters, jieba scores higher."""
    pytest.importorskip("jieba")
    pytest.importorskip("chinese_converter")
    assert outside(rows_of(published, "jieba", "chinese-converter"), "Jieba") == []
    rows = rows_of(published, "jieba")
    for name in ("test_accuracy", "control_accuracy"):
        assert (rows[name, "overall"].value or 0.0) > printed("Jieba", name, "overall") + 0.04


@pytest.mark.skipif(
    importlib.util.find_spec("spacy_pkuseg") is None or not PKUSEG.is_dir(),
    reason="needs spacy-pkuseg and PKUSEG's default model (see docs/eras.md)",
)
def test_pkuseg_agrees_with_table_1(published: Path) -> None:
    """For PKUSEG on simplified characters, every number of its row lies inside our interval."""
    assert outside(rows_of(published, "pkuseg"), "PKUSEG") == []
