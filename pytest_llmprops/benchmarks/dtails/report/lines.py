"""What stands side by side in DTAiLS's part of a report: each series' choices by rules setting, and translations."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.reports.kit.series import Measured, Series
from pytest_llmprops.reports.kit.text import file_names, visible

#: a table of more rows than this is closed at first
LONG = 20
#: what ``llmprops dtails rules`` calls its files, but for ``.json``
_FILE = re.compile(r"rules-[a-z]{2,3}-(.+)")
#: characters of a model's name and of its rules' in a plot
_NAME, _RULES = 22, 26


@dataclass(frozen=True, slots=True)
class Line:
    """One task of one series.

    :param model: its name in a table that has the rules in a column of their own.
    :param rules: ``none``, ``own``, or whose; empty for translations.
    :param name: model and rules, unlike every other line of its task. :param short: the same for a plot.
    """

    series: Series
    task: str
    model: str
    rules: str
    name: str
    short: str


def rules_name(setting: object) -> str:
    """The setting ``rules`` in words: ``none``, ``own``, or by whose file: its model's name in the file's."""
    text = str(setting or "none")
    if text in ("none", "self"):
        return {"none": "none", "self": "own"}[text]
    names = [name.removesuffix(".json") for name in file_names(text)]
    models = {match[1] for name in names if (match := _FILE.fullmatch(name))}
    if len(models) == 1 and all(map(_FILE.fullmatch, names)):
        return visible(models.pop())
    if names in (["none"], ["own"]):
        return f"{names[0]}.json"
    return visible(names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more")


def lines_of(measured: Measured) -> list[Line]:
    """Choices first, then translations; of each the models together, without rules before those with."""
    found = [*_lines(measured, SELECT), *_lines(measured, TRANSLATE)]
    order = {name: n for n, name in enumerate(dict.fromkeys(line.series.model for line in found))}
    rank = {"none": 0, "own": 1}
    tasks = (SELECT, TRANSLATE)
    return sorted(
        found,
        key=lambda line: (tasks.index(line.task), order[line.series.model], rank.get(line.rules, 2)),
    )


def _lines(measured: Measured, task: str) -> list[Line]:
    found: list[tuple[Series, str]] = []
    seen = set()
    for s in measured.series:
        rows = [row for row in measured.rows(s) if row.task == task]
        if not rows:
            continue
        if task == TRANSLATE:
            # Rules change nothing here: runs with other rules repeat the same translations.
            outcome = sorted((r.id, r.status, r.given) for r in measured.records(s, [task]))
            if (s.model, repr(outcome)) in seen:
                continue
            seen.add((s.model, repr(outcome)))
        found.append((s, rules_name(s.settings("dtails").get("rules")) if task == SELECT else ""))
    times = Counter((s.model, rules) for s, rules in found)
    lines = []
    for s, rules in found:
        alone = times[s.model, rules] == 1
        star = s.starred.removeprefix(s.label)
        model = (visible(s.model) if alone else s.label) + star
        said = {"": "", "none": "no rules", "own": "own rules"}.get(rules, f"rules of {rules}")
        short = (middle(visible(s.model)) if alone else middle(s.label, 2 * _NAME)) + star
        tail = shortened(said, _RULES)
        lines.append(Line(s, task, model, rules, _with(model, said), _with(short, tail)))
    return lines


def _with(model: str, rules: str) -> str:
    return f"{model} ({rules})" if rules else model


def middle(text: str, most: int = _NAME) -> str:
    """``text`` cut in its middle to ``most`` characters: models of a family often differ at the end."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[head + 1 - most :]}"
