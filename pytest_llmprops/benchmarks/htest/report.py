"""The H-TEST section of a report: tasks by number of examples, Letter Geometry, and fine-tuned models.

Lee & Lim report the grid in Table 6 and Figures 3 and 4, the comparison with Letter Geometry in Figure 5, and
fine-tuning in Table 8 and Figure 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from pytest_llmprops.benchmarks.htest.benchmark import FEWEST_READ, HTest
from pytest_llmprops.benchmarks.htest.items import GEOMETRY, TASKS
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.core.verdicts import Evidence, VerdictRecord, object_in, objects_in, text_in
from pytest_llmprops.data.published_results import PublishedResult, find
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Section,
    Table,
    percent,
    visible,
    with_interval,
    words,
)
from pytest_llmprops.reports.kit.figures import ForestRow, Mark, Point, Spot, panels, scatter
from pytest_llmprops.reports.kit.generic import accuracy_figure, detailed, fine_print
from pytest_llmprops.reports.kit.series import Measured, Series, Share, accuracy
from pytest_llmprops.runs.json_lines import read_record_file

#: Row of the grid for all items together; it is the mean of the tasks if they have equally many items.
ALL = "all tasks"
#: With more series than this, a forest plot is too tall to read.
MAX_IN_FOREST = 3
ADJUSTED = (
    "† adjusted accuracy: of the replies that could be read (appendix D of the paper), if at least 30% could."
)


def section(measured: Measured) -> Section:
    """Return the section: the grid, Letter Geometry, and the general parts."""
    blocks: list[Block] = []
    if len(measured.series) <= MAX_IN_FOREST:
        blocks.append(accuracy_figure(measured))
    if _ab_tasks(measured):
        if len({(_k(s), _cot(s)) for s in measured.series}) > 1:
            blocks.append(_grid_figure(measured))
        blocks.append(_grid(measured))
    blocks += _geometry(measured)
    if rows := conditions(measured):
        blocks += [training_table(rows), training_figure(rows)]
    blocks += detailed(measured)
    return Section((*blocks, *fine_print(measured)))


def _k(series: Series) -> int | None:
    k = series.settings("htest").get("k")
    return k if isinstance(k, int) else None


def _cot(series: Series) -> bool:
    return bool(series.settings("htest").get("cot"))


def _ab_tasks(measured: Measured) -> list[str]:
    return list(dict.fromkeys(place[0] for place in measured.places if place[0] != GEOMETRY))


def _tasks_name(measured: Measured) -> str:
    return f"all {'ten' if len(_ab_tasks(measured)) == 10 else len(_ab_tasks(measured))} tasks"


def _accuracy(records: Iterable[VerdictRecord]) -> tuple[Share | None, Share | None]:
    """Return the accuracy, and the adjusted one if some replies could not be read, but not too many."""
    members = [r for r in records if r.status != "error"]
    readable = [r for r in members if r.status in ("correct", "wrong")]
    is_adjusted = FEWEST_READ * len(members) <= len(readable) < len(members)
    return accuracy(members), accuracy(readable) if is_adjusted else None


def _grid(measured: Measured) -> Table:
    series = sorted(measured.series, key=lambda s: (s.model, _cot(s), _k(s) or 0, s.index))
    ks = sorted({k for s in series if (k := _k(s)) is not None})
    rows = []
    for task in (*_ab_tasks(measured), ALL):
        name = _tasks_name(measured) if task == ALL else words(task)
        cells = (_grid_cell(measured, s, task) for s in series)
        rows.append((Cell(name), *cells, *(_best(task, k) for k in ks)))
    columns = [("Task", False), *((s.starred, True) for s in series)]
    columns += [(f"Best of the paper, k = {k}", True) for k in ks]
    note = "Guessing gets 50%. The paper's figures are for the authors' items (Table 6)."
    if any("†" in cell.text for row in rows for cell in row):
        note = f"{note} {ADJUSTED}"
    return Table("Task by number of examples", tuple(columns), tuple(rows), note)


def _grid_cell(measured: Measured, series: Series, task: str) -> Cell:
    tasks = _ab_tasks(measured) if task == ALL else [task]
    share, adjusted = _accuracy(measured.records(series, tasks))
    cell = Cell("–") if share is None else _cell(share, adjusted)
    # The list has no filter for several tasks, so Letter Geometry must not be among its items.
    if task == ALL and GEOMETRY in {place[0] for place in measured.places}:
        return cell
    named = {} if task == ALL else {"task": task}
    return replace(cell, items={"benchmark": measured.benchmark, **named, "series": str(series.index)})


def _best(task: str, k: int) -> Cell:
    results = [r for r in _published_results() if r.k == k and r.task == ("average" if task == ALL else task)]
    if not results:
        return Cell("–")
    best = max(results, key=lambda r: r.value)
    return Cell(f"{best.model} {100 * best.value:.1f}", best.value)


def _cell(share: Share, adjusted: Share | None) -> Cell:
    text = with_interval(share.value, share.low, share.high)
    if adjusted is not None:
        text += f"; † {percent(adjusted.value)} of {adjusted.n:,}"
    return Cell(text, share.value, share.low, share.high)


def _published_results() -> tuple[PublishedResult, ...]:
    return tuple(
        r for r in find(paper="htest", table="6", metric="accuracy", setting="") if "doubtful" not in r.note
    )


def _grid_figure(measured: Measured) -> Figure:
    models = {s.model: s.index for s in reversed(measured.series)}
    columns = []
    for k, cot in sorted({(k, _cot(s)) for s in measured.series if (k := _k(s)) is not None}):
        of_setting = [s for s in measured.series if (_k(s), _cot(s)) == (k, cot)]
        rows = []
        for task in _ab_tasks(measured):
            shares = ((s, _accuracy(measured.records(s, [task]))[0]) for s in of_setting)
            points = [
                Point(models[s.model], share.value, share.low, share.high) for s, share in shares if share
            ]
            printed = (r for r in _published_results() if (r.task, r.k) == (task, k) and not cot)
            rows.append(ForestRow(words(task), tuple(points), tuple(Mark(r.model, r.value) for r in printed)))
        columns.append((f"k = {k}{', with CoT' if cot else ''}", rows))
    labels = {index: visible(model) for model, index in models.items()}
    return Figure(
        "htest-grid",
        "Accuracy by number of examples",
        f"Accuracy by task of {', '.join(labels.values())} with {', '.join(title for title, _ in columns)}; "
        "the numbers are in the table below.",
        lambda: panels(columns, labels, {}),
        "Diamonds are the paper's models (Table 6), on the authors' items.",
    )


def _geometry(measured: Measured) -> list[Block]:
    spots, rows = [], []
    for s in measured.series:
        ten, ten_adjusted = _accuracy(measured.records(s, _ab_tasks(measured)))
        shape, shape_adjusted = _accuracy(measured.records(s, [GEOMETRY]))
        if ten and shape:
            x, y = (Point(s.index, v.value, v.low, v.high) for v in (ten, shape))
            spots.append(Spot(s.starred, x, y, s.index))
            cells = (_cell(ten, ten_adjusted), _cell(shape, shape_adjusted))
            rows.append((Cell(s.starred), *cells, Cell("this report")))
    if not spots:
        return []
    for model, mean, shape_value, k in _references():
        spots.append(Spot(model, _exact(mean, -1), _exact(shape_value, -1)))
        cells = (Cell(percent(mean), mean), Cell(percent(shape_value), shape_value))
        rows.append((Cell(model), *cells, Cell(f"paper, k = {k}")))
    columns = (("Model", False), ("Ten tasks", True), ("Letter Geometry", True), ("From", False))
    is_adjusted = any("†" in cell.text for row in rows for cell in row)
    table = Table("Ten tasks and Letter Geometry", columns, tuple(rows), ADJUSTED if is_adjusted else "")
    chance = (HTest.chance[""], HTest.chance[GEOMETRY])
    figure = Figure(
        "htest-geometry",
        "H-TEST against Letter Geometry",
        f"The ten tasks against Letter Geometry for {', '.join(s.label for s in spots)}.",
        lambda: scatter(spots, _tasks_name(measured), "Letter Geometry", chance, has_fit=True),
        "Hollow diamonds: the paper's models with both figures, on the authors' items. Line: the linear best fit of all"
        " points, as in Figure 5 of the paper.",
    )
    return [figure, Fold("The numbers of this plot", (table,))]


def _references() -> list[tuple[str, float, float, int]]:
    """Return (model, mean of the ten tasks, Letter Geometry, largest k without doubtful figures)."""
    printed = _published_results()
    references = []
    for shape in (r for r in printed if r.task == GEOMETRY):
        means = [r for r in printed if r.model == shape.model and r.task == "average" and r.k is not None]
        if means:
            best = max(means, key=lambda r: r.k or 0)
            references.append((shape.model, best.value, shape.value, best.k or 0))
    return references


def _exact(value: float, series: int) -> Point:
    """Return a point without an interval."""
    return Point(series, value, value, value)


ORIGINAL = "original"
AVERAGE = "average"
#: Ends the names of the paper's models.
PRINTED = " (paper)"


@dataclass(frozen=True, slots=True)
class Condition:
    """A row of Table 8: the base, or a model that was trained on one task, on all ten tasks.

    :param base: The model before training. :param trained_on: The task; empty for the base itself.
    :param accuracies: By task, with ``average``.
    :param how: Seed, items and epochs of the training, in this order; ``–`` where there is none.
    :param changed: Tasks on which the judgement of the two runs says worse or better; None without the base's run.
    :param held_out: Accuracy on further items of the task, without examples; None if it is not known.
    """

    base: str
    trained_on: str
    accuracies: Mapping[str, float]
    how: tuple[str, str, str] = ("–", "–", "–")
    changed: frozenset[str] | None = None
    held_out: float | None = None


def read_training(series: Series) -> Evidence | None:
    """Return the ``training.json`` of a model that was trained on a task; None if the report cannot know it."""
    facts = series.run.facts.models.get(series.model)
    backend, _, rest = facts.spec.partition(":") if facts else ("", "", "")
    if backend != "hf" or not rest:
        return None
    try:
        path = Path(rest.partition("?")[0]).expanduser() / "training.json"
        record = parsed_json(read_record_file(path))
    except (OSError, ValueError, RuntimeError):
        return None
    description = object_in(record, "description") if isinstance(record, dict) else {}
    return record if text_in(description, "base") and "task" in object_in(description, "options") else None


def conditions(measured: Measured) -> list[Condition]:
    """Return the bases in a report, each followed by the models that were trained from it; empty without any."""
    tuned: dict[str, list[tuple[Series, Evidence]]] = {}
    for s in measured.series:
        if training := read_training(s):
            tuned.setdefault(text_in(object_in(training, "description"), "base"), []).append((s, training))
    rows: list[Condition] = []
    for name, trainings in tuned.items():
        base = next((s for s in measured.series if _model(s) == name), None)
        label = visible(Path(name).name if base is None else base.label)
        if base is not None:
            rows.append(Condition(label, "", _accuracies(measured, base)))
        for s, training in trainings:
            changed = None if base is None else _changed(measured.benchmark, base, s)
            description = object_in(training, "description")
            options, settings = object_in(description, "options"), object_in(description, "settings")
            how = (settings.get("seed"), options.get("items"), settings.get("epochs"))
            seed, items, epochs = (f"{x:,g}" if isinstance(x, int | float) else "–" for x in how)
            # The only scored file of such a training is its held-out part.
            scored = next((score.get("accuracy") for score in objects_in(training, "scores")), None)
            held_out = scored if isinstance(scored, int | float) else None
            task, accuracies = visible(str(options["task"])), _accuracies(measured, s)
            rows.append(Condition(label, task, accuracies, (seed, items, epochs), changed, held_out))
    return rows


def printed() -> list[Condition]:
    """Return the paper's rows (Table 8)."""
    settings: dict[str, dict[str, float]] = {}
    results = find(paper="htest", table="8", metric="accuracy")
    for r in results:
        settings.setdefault(r.setting, {})[r.task] = r.value
    base, rows = f"{results[0].model}{PRINTED}", []
    for setting, accuracies in settings.items():
        _, is_tuned, task = setting.partition("fine-tuned on ")
        rows.append(
            Condition(base, task, accuracies, ("–", *(("about 1,000", "3") if is_tuned else ("–", "–"))))
        )
    return rows


def _model(series: Series) -> str:
    """Return the folder or repository that a series' model was loaded from."""
    facts = series.run.facts.models.get(series.model)
    return facts.spec.removeprefix("hf:").partition("?")[0] if facts else ""


def _accuracies(measured: Measured, series: Series) -> dict[str, float]:
    """Return the accuracy of each task, and their mean if all ten were measured."""
    shares = ((task, measured.accuracy(series, [task])) for task in TASKS)
    accuracies = {task: share.value for task, share in shares if share is not None}
    return accuracies | ({AVERAGE: fmean(accuracies.values())} if len(accuracies) == len(TASKS) else {})


def _changed(benchmark: str, base: Series, trained: Series) -> frozenset[str]:
    """Return the tasks on which a trained model is worse or better than its base."""
    changes = base.judgement(trained).items()
    return frozenset(
        m.name for m, c in changes if (m.benchmark, m.kind) == (benchmark, "task") and c.is_clear
    )


def training_table(rows: Sequence[Condition]) -> Table:
    """Return the table of these rows and the paper's."""
    heads = ("Model", "Fine-tuned on", "Seed", "Items", "Epochs", "Held out", *map(words, (*TASKS, AVERAGE)))
    cells = tuple(
        (
            Cell(row.base),
            Cell(words(row.trained_on) or ORIGINAL),
            *map(Cell, row.how),
            Cell("–") if row.held_out is None else Cell(f"{100 * row.held_out:.1f}", row.held_out),
            *(_trained_cell(row, task) for task in (*TASKS, AVERAGE)),
        )
        for row in (*rows, *printed())
    )
    note = (
        "Accuracy in percent; guessing gets 50. In parentheses: measured on the task that the model was trained on."
        " Held out: further items of that task, without examples in the prompt."
    )
    if any(row.changed is not None for row in rows):
        note += " *: worse or better than the original, as llmprops compare judges the two runs."
    columns = tuple((head, number > 1) for number, head in enumerate(heads))
    return Table("Before and after fine-tuning", columns, cells, f"{note} The paper's rows are from Table 8.")


def _trained_cell(row: Condition, task: str) -> Cell:
    value = row.accuracies.get(task)
    if value is None:
        return Cell("–")
    # The paper prints one figure with two decimals.
    text = f"{100 * value:.2f}".removesuffix("0") if row.base.endswith(PRINTED) else f"{100 * value:.1f}"
    text = f"({text})" if task == row.trained_on else text
    return Cell(f"{text}*" if task in (row.changed or ()) else text, value)


def training_figure(rows: Sequence[Condition]) -> Figure:
    """Return the plot of Figure 6: each task before and after fine-tuning, one panel per base, the paper's last."""
    every = [*rows, *printed()]
    names = list(dict.fromkeys(row.base for row in every))

    def line(base: str, task: str) -> ForestRow:
        of_base = (row for row in every if row.base == base and task in row.accuracies)
        points = [_exact(row.accuracies[task], _kind(row, task)) for row in of_base]
        # The many models that were trained on another task are drawn below the others.
        return ForestRow(words(task), tuple(sorted(points, key=lambda point: -point.series)))

    columns = [(base, [line(base, task) for task in (*TASKS, AVERAGE)]) for base in names]
    labels = {0: "before training", 1: "trained on this task", 2: "trained on another task"}
    return Figure(
        "htest-fine-tuning",
        "Accuracy before and after fine-tuning",
        f"The accuracy on each task before and after fine-tuning of {', '.join(names)}; the numbers are in the table.",
        lambda: panels(columns, labels, {}),
        "Guessing gets 50%. The paper's figures are from Table 8.",
    )


def _kind(row: Condition, task: str) -> int:
    """Return the series of a point in Figure 6: before training, or trained on this or on another task."""
    if not row.trained_on:
        return 0
    return 1 if row.trained_on == task else 2
