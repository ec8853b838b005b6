"""Table 8 and Figure 6 in the report: the bases, the models trained from them, and the paper's rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.htest.items import TASKS
from pytest_llmprops.benchmarks.htest.report import conditions, read_training, training_figure, training_table
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Table
from pytest_llmprops.reports.kit.figures import draw, marker
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.runs.reader import read_run
from tests.support.records import recorded, verdicts


def run_of(folder: Path, spec: str, correct: dict[str, int], items: int = 40) -> Path:
    """Write a run with the first ``correct[task]`` items of each task correct, 20 where none are named."""
    counts = {task: correct.get(task, 20) for task in TASKS}
    records = [r for task, n in counts.items() for r in verdicts(task, n, items - n, benchmark="htest")]
    return recorded(folder, records, models={"model": {"spec": spec}})


def trained_on(folder: Path, task: str, base: str, seed: int) -> str:
    """Write the folder of an adapter, and return its specification."""
    folder.mkdir()
    options, settings = {"task": task, "items": 1000}, {"seed": seed, "epochs": 3.0}
    description = {"title": task, "base": base, "settings": settings, "options": options}
    record = {"description": description, "scores": [{"file": "held-out part", "accuracy": 0.9}]}
    (folder / "training.json").write_text(json.dumps(record), "utf-8")
    return f"hf:{folder}?dtype=float32"


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Return the runs of a base and of two models trained from it: rhyme gains 18 items, end_ly loses 5."""
    base = "org/base"
    rhyme = trained_on(tmp_path / "one", "rhyme", base, 4)
    other = trained_on(tmp_path / "two", "end_ly", base, 5)
    return [
        run_of(tmp_path / "r1", f"hf:{base}?dtype=float32", {}),
        run_of(tmp_path / "r2", rhyme, {"rhyme": 38}),
        run_of(tmp_path / "r3", other, {"end_ly": 15}),
    ]


def measured(runs: list[Path]) -> Measured:
    return Measured("htest", series_of([read_run(run) for run in runs]))


def test_rows_name_base_task_seed_items_and_epochs(runs: list[Path]) -> None:
    """The base comes first, whatever the order of the runs; the paper's rows are below, with Table 8's 121 figures."""
    table = training_table(conditions(measured([runs[1], runs[0], runs[2]])))
    assert [name for name, _ in table.columns][:6] == [
        "Model", "Fine-tuned on", "Seed", "Items", "Epochs", "Held out"
    ]  # fmt: skip
    own, printed = table.rows[:3], table.rows[3:]
    assert [[cell.text for cell in row[1:6]] for row in own] == [
        ["original", "–", "–", "–", "–"], ["rhyme", "4", "1,000", "3", "90.0"], ["end ly", "5", "1,000", "3", "90.0"]
    ]  # fmt: skip
    assert len({row[0].text for row in own}) == 1
    assert [[cell.text for cell in row[:5]] for row in printed[:2]] == [
        ["gpt-3.5-turbo-0613 (paper)", "original", "–", "–", "–"],
        ["gpt-3.5-turbo-0613 (paper)", "uppercase", "–", "about 1,000", "3"],
    ]
    results = find(paper="htest", table="8")
    texts = [cell.text.strip("()") for row in printed for cell in row[6:]]
    assert sorted(float(text) for text in texts) == pytest.approx(sorted(100 * r.value for r in results))
    assert (len(printed), len(texts), len(results)) == (11, 121, 121)
    assert [row[-1].text for row in printed[:3]] == ["52.3", "50.0", "47.65"]


def test_a_change_is_tested_against_the_base(runs: list[Path]) -> None:
    """A star says what the judgement of the two runs says: 18 changed items of one task are clear, 5 are not.

    A trained model without its base has its row, named by the base, and no test.
    """
    rows = conditions(measured(runs))
    assert [row.changed for row in rows] == [None, {"rhyme"}, set()]
    table = training_table(rows)
    cells = [dict(zip([name for name, _ in table.columns], row, strict=True)) for row in table.rows]
    shown = cells[1]["rhyme"].text, cells[2]["end ly"].text, cells[1]["average"].text
    assert shown == ("(95.0)*", "(37.5)", "54.5")
    assert "*: worse or better than the original" in table.note
    alone = conditions(measured(runs[1:]))
    assert [(row.base, row.trained_on, row.changed) for row in alone] == [
        ("base", "rhyme", None), ("base", "end_ly", None)
    ]  # fmt: skip
    assert "worse or better" not in training_table(alone).note


def test_other_models_have_no_training(tmp_path: Path) -> None:
    """A missing folder, or a file of the same name from another program, is no error."""
    specs = ["hf:/no/such/folder", "hf:google/model", "jieba", "", "hf:\0"]
    for n, content in enumerate(("{", "[]", '{"description": 1}', '{"description": {}}')):
        (tmp_path / f"model-{n}").mkdir()
        (tmp_path / f"model-{n}" / "training.json").write_text(content, "utf-8")
        specs.append(f"hf:{tmp_path / f'model-{n}'}")
    run = read_run(run_of(tmp_path / "run", "model", dict.fromkeys(TASKS, 1), 1))
    for spec in specs:
        models = {"model": replace(run.facts.models["model"], spec=spec)}
        [series] = series_of([replace(run, facts=replace(run.facts, models=models))])
        assert read_training(series) is None, spec


def test_figure_has_a_panel_per_base(runs: list[Path]) -> None:
    """Each task has a point for the base, one per model, and one of another kind for the one trained on it."""
    figure = training_figure(conditions(measured(runs)))
    own, paper = figure.draw().axes
    assert paper.get_title(loc="left") == "gpt-3.5-turbo-0613 (paper)"
    kinds = {kind: [m for m in own.lines if m.get_marker() == marker(kind)] for kind in range(3)}
    assert [len(kinds[kind]) for kind in range(3)] == [11, 2, 20]
    assert (0.95, TASKS.index("rhyme") + 0.5) in [tuple(m.get_xydata()[0]) for m in kinds[1]]
    svg, png = draw(figure.draw)
    assert "hyphenated word" in svg
    assert png


def test_report_has_the_table_and_the_figure(runs: list[Path]) -> None:
    """The section has both if a model was fine-tuned, and neither otherwise."""
    expected = {"Before and after fine-tuning", "htest-fine-tuning"}
    for chosen, shown in ((runs, expected), (runs[:1], set())):
        blocks = report_on([read_run(run) for run in chosen], {}).sections[0].blocks
        names = {block.title if isinstance(block, Table) else getattr(block, "name", "") for block in blocks}
        assert names & expected == shown
