"""The lines of DTAiLS's report section: each series' choices by rules setting, and its translations."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.core.texts import shortened
from pytest_llmprops.reports.kit.blocks import file_names, visible
from pytest_llmprops.reports.kit.series import Measured, Series

#: A table with more rows than this is folded.
LONG = 20
#: Names of the files that ``llmprops dtails rules`` writes, without ``.json``.
_FILE = re.compile(r"rules-[a-z]{2,3}-(.+)")
#: Maximum characters of a model's name and of its rules' name in a plot.
_NAME, _RULES = 22, 26


@dataclass(frozen=True, slots=True)
class Line:
    """One task of one series.

    :param model: Its name in a table with a separate column for rules.
    :param rules: ``none``, ``own``, or the name of the rules; empty for translations.
    :param name: Model and rules, unique within the task. :param short: The same, for a plot.
    """

    series: Series
    task: str
    model: str
    rules: str
    name: str
    short: str


def rules_name(setting: object) -> str:
    """Return the setting ``rules`` in words: ``none``, ``own``, or the model in the file's name."""
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
    """Return choices first, then translations, grouped by model; no rules come before rules."""
    lines = [*_lines(measured, SELECT), *_lines(measured, TRANSLATE)]
    order = {name: n for n, name in enumerate(dict.fromkeys(line.series.model for line in lines))}
    rank = {"none": 0, "own": 1}
    tasks = (SELECT, TRANSLATE)
    return sorted(
        lines,
        key=lambda line: (tasks.index(line.task), order[line.series.model], rank.get(line.rules, 2)),
    )


def _lines(measured: Measured, task: str) -> list[Line]:
    series_rules: list[tuple[Series, str]] = []
    seen = set()
    for s in measured.series:
        rows = [row for row in measured.rows(s) if row.task == task]
        if not rows:
            continue
        if task == TRANSLATE:
            # Rules do not affect translations: runs with other rules repeat them.
            outcome = sorted((r.id, r.status, r.given) for r in measured.records(s, [task]))
            if (s.model, repr(outcome)) in seen:
                continue
            seen.add((s.model, repr(outcome)))
        series_rules.append((s, rules_name(s.settings("dtails").get("rules")) if task == SELECT else ""))
    times = Counter((s.model, rules) for s, rules in series_rules)
    lines = []
    for s, rules in series_rules:
        is_unique = times[s.model, rules] == 1
        star = s.starred.removeprefix(s.label)
        model = (visible(s.model) if is_unique else s.label) + star
        label = {"": "", "none": "no rules", "own": "own rules"}.get(rules, f"rules of {rules}")
        short = (middle(visible(s.model)) if is_unique else middle(s.label, 2 * _NAME)) + star
        short_label = shortened(label, _RULES)
        lines.append(Line(s, task, model, rules, _with_rules(model, label), _with_rules(short, short_label)))
    return lines


def _with_rules(model: str, rules: str) -> str:
    return f"{model} ({rules})" if rules else model


def middle(text: str, most: int = _NAME) -> str:
    """Return ``text`` cut in its middle to ``most`` characters: models of a family often differ at the end."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[head + 1 - most :]}"
