"""The gate file: the conditions under which a model is accepted.

[[rule]]
benchmark = "homophones"
task = "asked"
min_accuracy = 0.8
max_drop = 0.05
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import Placed, TaskKey, task_key_of
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.strict_json import problem_of
from pytest_llmprops.core.texts import did_you_mean
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import facts_of

PLACE = ("benchmark", "task", "language", "source")
Each = Literal["task", "language", "cluster"]
PlacedT = TypeVar("PlacedT", bound=Placed)
NEEDS_BASELINE = "a rule with max_drop or no_collapse needs a baseline; give one with"
#: keys that a gate may set for all of its rules
_SHARED = ("max_errors", "min_items")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: the items or metric it is about, and its requirements.

    Shares are fractions in [0, 1]; None means that the rule does not require this.

    :param where: shell-style patterns by ``benchmark``, ``task``, ``language``, ``source``.
    :param apart: controls and side tasks (benchmark, task) that a rule without a task leaves out
        (:func:`on_headline_tasks`).
    :param metric: pattern of a metric's name. :param group: pattern of its group; None: all groups.
    :param max_drop: the largest drop that is accepted. :param no_collapse: the same for one member of the rule.
    :param each: what these members are: each ``task``, ``language`` or ``cluster``.
    """

    name: str
    where: Mapping[str, str]
    metric: str = ""
    group: str | None = None
    min_accuracy: float | None = None
    max_drop: float | None = None
    no_collapse: float | None = None
    each: Each | None = None
    max_refused: float | None = None
    max_unparsed: float | None = None
    max_errors: float = 0.01
    min_items: int = 30
    min: float | None = None
    max: float | None = None
    apart: frozenset[tuple[str, str]] = frozenset()

    @property
    def paired(self) -> bool:
        """True if the rule compares with a baseline."""
        return self.max_drop is not None or self.no_collapse is not None

    @property
    def is_about_accuracy(self) -> bool:
        """True if the rule bounds the accuracy of the candidate, or its drop."""
        return self.max_drop is not None or self.min_accuracy is not None

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the requirements, without ``max_errors`` and ``min_items``."""
        named = ("min_accuracy", "max_drop", "no_collapse", "max_refused", "max_unparsed", "min", "max")
        return tuple(name for name in named if getattr(self, name) is not None)

    def concerns(self, benchmark: str) -> bool:
        """Return True if the rule's pattern of a benchmark matches; it may still select none of its items."""
        return fnmatchcase(benchmark, self.where.get("benchmark", "*"))

    def matches(self, place: Placed) -> bool:
        """Return True if ``place`` (a record, a summary row, …) matches the rule's patterns."""
        if (place.benchmark, place.task) in self.apart:
            return False
        return all(fnmatchcase(getattr(place, name), pattern) for name, pattern in self.where.items())

    def select(self, records: Iterable[PlacedT]) -> list[PlacedT]:
        """Return the ``records`` that the rule is about, in their order."""
        known: dict[tuple[Any, ...], bool] = {}
        selected = []
        names = (*self.where, "benchmark", "task") if self.apart else tuple(self.where)
        for record in records:
            place = tuple(getattr(record, name) for name in names)
            if place not in known:
                known[place] = self.matches(record)
            if known[place]:
                selected.append(record)
        return selected


@dataclass(frozen=True, slots=True)
class Gate:
    """A valid gate file."""

    rules: tuple[Rule, ...]
    allow_mixed: bool = False
    file: str = ""
    sha256: str = ""

    @property
    def needs_baseline(self) -> bool:
        return any(rule.paired for rule in self.rules)

    def check_matches(self, places: Iterable[Placed]) -> None:
        """Check that every rule matches one of ``places``, and that no two rules are about the same items.

        :raises UsageError: naming the rule and the available values.
        """
        places = _distinct(places)
        for name, problem in self.empty_rules(places).items():
            raise UsageError(f"{self.file}: rule {name!r} {problem}")
        for problem in self.overlaps(places):
            raise UsageError(f"{self.file}: {problem}")

    def empty_rules(self, places: Iterable[Placed]) -> dict[str, str]:
        """Return the rules that match none of ``places``: name -> message with the available values."""
        known = _distinct(places)
        return {
            rule.name: f"matches nothing: {_there(rule, known)}"
            for rule in self.rules
            if not any(map(rule.matches, known))
        }

    def overlaps(self, places: Iterable[Placed]) -> list[str]:
        """Return one line for each two rules about the same items; rules on metrics may share items."""
        first_places: dict[tuple[str, str], str] = {}
        for place in _distinct(places):
            names = [rule.name for rule in self.rules if not rule.metric and rule.matches(place)]
            for pair in combinations(names, 2):
                first_places.setdefault(pair, "/".join(place))
        return [
            f"rules '{one}' and '{other}' are both about {where}; an item may belong to one rule only"
            for (one, other), where in first_places.items()
        ]

    def check_metrics(self, directions: Mapping[str, Mapping[str, str]]) -> None:
        """Check that the metrics of the rules exist and that the limits fit their directions.

        :param directions: benchmark -> metric name -> direction; a benchmark that declares no metrics is checked at
            the end of the run. :raises UsageError: naming the rule and the available metrics.
        """
        for rule in self.rules:
            if not rule.metric:
                continue
            matching = {b: names for b, names in directions.items() if rule.concerns(b)}
            named = {
                n: d for names in matching.values() for n, d in names.items() if fnmatchcase(n, rule.metric)
            }
            for name, direction in named.items():
                problem = wrong_side(rule, name, direction)
                if problem:
                    raise UsageError(f"{self.file}: rule '{rule.name}': {problem}")
            if not named and matching and all(matching.values()):
                known = sorted({n for names in matching.values() for n in names})
                raise UsageError(
                    f"{self.file}: rule '{rule.name}': no metric '{rule.metric}'; there are {', '.join(known)}"
                    + did_you_mean(rule.metric, known)
                )


def _distinct(places: Iterable[Placed]) -> list[TaskKey]:
    return list(dict.fromkeys(map(task_key_of, places)))


def wrong_side(rule: Rule, name: str, direction: str) -> str:
    """Return why the rule's limits do not fit a metric of this direction; empty if they do."""
    if direction == "higher" and rule.max is not None:
        return f"{name} is better the higher it is: use min, not max"
    if direction == "lower" and rule.min is not None:
        return f"{name} is better the lower it is: use max, not min"
    return ""


def _there(rule: Rule, places: Sequence[TaskKey]) -> str:
    apart = sorted({f"{p.benchmark}/{p.task}" for p in places if replace(rule, apart=frozenset()).matches(p)})
    if apart:
        return f"without a task, it judges headline tasks, not {', '.join(apart)}; name the task"
    for name, pattern in rule.where.items():
        values = sorted({getattr(p, name) for p in places})
        if not any(fnmatchcase(v, pattern) for v in values):
            near = did_you_mean(pattern, values)
            if name == "language" and pattern.isalpha() and not near:
                near = f"; write the code, not '{pattern}'"
            return f"{name} is one of {', '.join(values) or '(nothing)'}{near}"
    more = ", …" if len(places) > 12 else ""
    return "there are " + ", ".join("/".join(p) for p in places[:12]) + more


def _is_number(value: Any) -> bool:
    # Python also counts true and false as numbers, and an integer may be larger than any float.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


#: what a value must be -> whether it is
_Form: TypeAlias = tuple[str, Callable[[Any], bool]]
_SHARE: _Form = ("a fraction from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
_NUMBER: _Form = ("a number", _is_number)
_TEXT: _Form = ("a text", lambda value: isinstance(value, str) and bool(value.strip()))
_RULE: Mapping[str, _Form] = {
    "name": _TEXT,
    **dict.fromkeys(PLACE, _TEXT),
    "metric": _TEXT,
    **dict.fromkeys(("min_accuracy", "max_drop", "no_collapse"), _SHARE),
    "each": (f"one of {', '.join(get_args(Each))}", lambda value: value in get_args(Each)),
    **dict.fromkeys(("max_refused", "max_unparsed", "max_errors"), _SHARE),
    "min_items": ("a whole number of at least 1", lambda value: type(value) is int and value >= 1),
    "min": _NUMBER,
    "max": _NUMBER,
}
_TOP: Mapping[str, _Form] = {
    "allow_mixed": ("true or false", lambda value: isinstance(value, bool)),
    **{name: _RULE[name] for name in _SHARED},
}


def read_gate(path: Path) -> Gate:
    """Read and check a gate file.

    :raises UsageError: if the file cannot be read, has an unknown key or an invalid value, or if a rule has no
        requirement or contradictory ones.
    """
    try:
        raw = path.read_bytes()
        table = tomllib.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"gate file {path}: cannot be read: {error.strerror}; check the path") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"gate file {path}: not TOML in UTF-8: {error}; correct it there") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"gate file {path}: not TOML that can be read: {problem_of(error)}") from None
    rules = table.pop("rule", [])
    if not isinstance(rules, list) or not rules or not all(isinstance(r, dict) for r in rules):
        raise UsageError(f"gate file {path}: has no rule; write [[rule]] and what it requires")
    _check(table, _TOP, f"gate file {path}")
    shared = {name: table.pop(name) for name in _SHARED if name in table}
    parsed = tuple(_rule(r, n, shared, f"gate file {path}: rule {n}") for n, r in enumerate(rules, 1))
    names = [rule.name for rule in parsed]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f'gate file {path}: two rules are called {name!r}; give one another name = "…"')
    return Gate(parsed, file=path.name, sha256=hashlib.sha256(raw).hexdigest(), **table)


def _check(table: Mapping[str, Any], forms: Mapping[str, _Form], where: str) -> None:
    for key, value in table.items():
        if key not in forms:
            near = did_you_mean(key, forms)
            raise UsageError(f"{where}: unknown key {key!r}; there are {', '.join(forms)}{near}")
        form, fits = forms[key]
        if not fits(value):
            raise UsageError(f"{where}: {key} = {value!r}: must be {form}")


#: the value of a requirement that every run meets
_NEVER_MISSED = {"min_accuracy": 0, "max_drop": 1, "no_collapse": 1, "max_refused": 1, "max_unparsed": 1}


def _rule(table: Mapping[str, Any], number: int, shared: Mapping[str, Any], where: str) -> Rule:
    _check(table, _RULE, where)
    values = dict(table)
    place = {name: values.pop(name) for name in PLACE if name in values}
    if "metric" in values:
        values["metric"], has_group, group = values["metric"].partition("/")
        values |= {"group": group} if has_group else {}
    about = " ".join(filter(None, (values.get("metric"), values.get("group"), *place.values())))
    rule = Rule(values.pop("name", about or f"rule {number}"), place, **{**shared, **values})
    limits_errors = "max_errors" in values or "min_items" in values
    if not rule.checks and not limits_errors:
        raise UsageError(f"{where}: requires nothing; give it max_drop, min_accuracy, max_refused, …")
    for name, most in _NEVER_MISSED.items():
        if values.get(name) == most:
            raise UsageError(f"{where}: no run can miss {name} = {most:g}; give a limit that one can miss")
    if (rule.no_collapse is None) is not (rule.each is None):
        raise UsageError(
            f'{where}: no_collapse = 0.15 and each = "task" (or "language", "cluster") need each other'
        )
    metric_checks = {"min", "max"} & set(rule.checks)
    if rule.metric and (set(rule.checks) - metric_checks or not metric_checks):
        raise UsageError(f"{where}: a rule on a metric takes min or max, and nothing else")
    if metric_checks and not rule.metric:
        raise UsageError(f'{where}: min and max need metric = "NAME"')
    if rule.min is not None and rule.max is not None and rule.min > rule.max:
        raise UsageError(f"{where}: min {rule.min:g} is above max {rule.max:g}")
    return rule


def on_headline_tasks(gate: Gate, places: Iterable[Placed], *runs: RunMetadata) -> Gate:
    """Return the gate whose rules without a task judge headline tasks only, as reports do.

    The name of a metric says which tasks it is about, so rules on metrics stay as they are.

    :param places: of both runs. A benchmark that has only controls and side tasks there is judged on them.
    :param runs: ``run.json`` of the run and its baseline.
    """
    tasks: dict[str, set[str]] = {}
    for place in places:
        tasks.setdefault(place.benchmark, set()).add(place.task)
    apart: set[tuple[str, str]] = set()
    for name, known in tasks.items():
        others = (facts_of(name, *runs) or BenchmarkMetadata.unknown(name)).tasks_apart
        apart |= {(name, task) for task in others if known - others}
    rules = (
        rule if rule.metric or "task" in rule.where else replace(rule, apart=rule.apart | apart)
        for rule in gate.rules
    )
    return replace(gate, rules=tuple(rules))


def unbounded_rules(gate: Gate, known: Mapping[str, BenchmarkMetadata]) -> list[str]:
    """Return one line for each rule on a metric that leaves replies out, without a rule on the share that is left.

    A reply can decide whether it is left out: in H-TEST, it may tell the reader model to answer "none".

    :param known: the benchmarks of the run, by name.
    """
    return [
        f"rule '{rule.name}': a reply without an answer is left out of {metric}, so add a rule for the same selection"
        f' with metric = "{bound}" and min, such as min = 0.9'
        for benchmark, facts in known.items()
        for metric, bound in facts.bounded_metrics.items()
        for rule in gate.rules
        if rule.metric and rule.concerns(benchmark) and fnmatchcase(metric, rule.metric)
        if not any(_bounds(other, bound, rule) for other in gate.rules)
    ]


def _bounds(other: Rule, bound: str, rule: Rule) -> bool:
    """Return True if a rule limits the metric ``bound`` wherever ``rule`` applies."""
    is_limit = bool(other.metric) and fnmatchcase(bound, other.metric) and other.group in (None, "")
    return is_limit and all(rule.where.get(name) == pattern for name, pattern in other.where.items())


#: requirements that treat more correct items as better
_HIGHER = ("min_accuracy", "max_drop", "no_collapse")


def misplaced_rules(gate: Gate, places: Iterable[Placed], *runs: RunMetadata) -> list[str]:
    """Return one line for each rule that treats higher accuracy as better on a task where it is not.

    :param places: records or cases.
    :param runs: ``run.json`` of the run and its baseline; they say which tasks these are.
    """
    lines: dict[str, str] = {}
    for place in _distinct(places):
        facts = facts_of(place.benchmark, *runs)
        if facts is None or place.task not in (*facts.unranked, *facts.accuracy_targets):
            continue
        problem = "says nothing by itself"
        if place.task not in facts.unranked:
            problem = f"is best at {facts.accuracy_targets[place.task]:g}, not higher"
        for rule in gate.rules:
            requirements = [name for name in rule.checks if name in _HIGHER]
            if requirements and rule.matches(place):
                lines[rule.name] = (
                    f"rule '{rule.name}': {requirements[0]} on {place.benchmark} {place.task}, whose accuracy"
                    f" {problem}: name another task, or a metric (min, max)"
                )
    return list(lines.values())
