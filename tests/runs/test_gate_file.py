"""Gate files: which keys are read, and which errors are reported before the first call."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.runs.gate.file import read_gate, unbounded_rules
from tests.support.gates import gate_file, gate_of
from tests.support.recorded import verdict

EVERYTHING = """
allow_mixed = true
max_errors = 0.02
min_items = 12

[[rule]]
benchmark = "homophones"
task = "ask*"
language = "en"
source = "builtin"
min_accuracy = 0.8
max_drop = 0.0
no_collapse = 0.15
each = "task"
max_refused = 0
max_unparsed = 0.5
min_items = 7

[[rule]]
name = "format"
benchmark = "htest"
metric = "format_rate/left"
min = 0.9
"""


def test_every_key_is_read(tmp_path: Path) -> None:
    """All keys are read; top-level keys are the defaults of all rules."""
    gate = gate_file(tmp_path, EVERYTHING)
    first, second = gate.rules
    assert gate.allow_mixed
    assert (first.name, first.min_accuracy) == ("homophones ask* en builtin", 0.8)
    assert (first.max_drop, first.no_collapse, first.each) == (0.0, 0.15, "task")
    assert (first.max_errors, first.min_items) == (0.02, 7)
    assert (second.name, second.metric, second.group) == ("format", "format_rate", "left")
    assert (second.min, second.min_items) == (0.9, 12)
    assert gate.file == "gate.toml"
    assert len(gate.sha256) == 64
    assert gate.needs_baseline


def test_limit_of_zero_is_a_limit(tmp_path: Path) -> None:
    """A limit of 0 is not a missing one. A byte order mark, as Windows editors write it, is accepted."""
    (rule,) = gate_file(tmp_path, "\ufeff[[rule]]\nmax_drop = 0\nmax_refused = 0.0").rules
    assert rule.checks == ("max_drop", "max_refused")
    assert rule.paired


WRONG = [
    ("", "has no rule; write [[rule]]"),
    ("rule = [", "not TOML"),
    ("min_items = " + "9" * 5_000, "not TOML that can be read: an integer has too many digits"),
    ("[[rule]]\nmin_acuracy = 0.5", "rule 1: unknown key 'min_acuracy'; there are name, benchmark"),
    ("[[rule]]\nname = 'x'", "rule 1: requires nothing"),
    ("allow_mixed = 1\n[[rule]]\nmax_drop = 0", "allow_mixed = 1: must be true or false"),
    (
        "[[rule]]\neach = 'model'\nno_collapse = 0.15",
        "each = 'model': must be one of task, language, cluster",
    ),
    ("[[rule]]\ntask = ''\nmax_drop = 0", "task = '': must be a text"),
    ("[[rule]]\nname = 'a'\nmax_drop = 0\n[[rule]]\nname = 'a'\nmax_drop = 0", "two rules are called 'a'"),
    ("[[rule]]\nmin = 0.5", 'need metric = "NAME"'),
    ("[[rule]]\nmetric = 'm'\nmin_accuracy = 0.5", "takes min or max, and nothing else"),
    ("[[rule]]\nmetric = 'm'\nmin = 0.6\nmax = 0.5", "min 0.6 is above max 0.5"),
    ("[[rule]]\nmetric = 'm'\nmin = nan", "min = nan: must be a number"),
    ("[[rule]]\nmetric = 'm'\nmax = true", "max = True: must be a number"),
    # A gate that accepts every model is a mistake.
    ("[[rule]]\nmax_drop = 1", "rule 1: no run can miss"),
    ("[[rule]]\nmin_accuracy = 0", "rule 1: no run can miss"),
    ("min_items = 0\n[[rule]]\nmax_drop = 0", "min_items = 0: must be a whole number of at least 1"),
    ("[[rule]]\nmin_items = true", "rule 1: min_items = True: must be a whole number"),
    *(
        (f"[[rule]]\n{key} = true", f"rule 1: {key} = True: must be a fraction")
        for key in ("min_accuracy", "max_drop", "max_refused", "max_unparsed", "max_errors", "no_collapse")
    ),
    *((f"[[rule]]\nmax_drop = {value}", "must be a fraction") for value in ("-0.1", "1.1", "'0.5'", "nan")),
]


def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path) -> None:
    """The line names the file, the rule, the key and the allowed values."""
    for text, wanted in WRONG:
        with pytest.raises(UsageError) as caught:
            gate_file(tmp_path, text)
        line = str(caught.value)
        assert wanted in line
        assert str(tmp_path / "gate.toml") in line
        assert "\n" not in line


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and a file in another encoding each give an error that names the path."""
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read: No such file or directory; check"):
        read_gate(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_gate(tmp_path)
    (tmp_path / "gate.toml").write_bytes("[[rule]]\nname = 'é'".encode("latin-1"))
    with pytest.raises(UsageError, match="not TOML in UTF-8"):
        read_gate(tmp_path / "gate.toml")


PLACES = [verdict(task=task, language=language) for task in ("add", "mul") for language in ("en", "zh")]


NO_MATCH = [
    ({"task": "sub"}, "task is one of add, mul"),
    ({"task": "add", "language": "e"}, "language is one of en, zh"),
    ({"task": "add", "language": "english"}, "language is one of en, zh; write the code, not 'english'"),
]


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    """The line lists what could be matched; matching is case-sensitive."""
    for where, there in NO_MATCH:
        gate = gate_of({"name": "typo", **where, "min_accuracy": 0.5})
        with pytest.raises(UsageError, match=rf"gate.toml: rule 'typo' matches nothing: {there}"):
            gate.check_matches(PLACES)

    # Every pattern matches something, but no place matches all of them.
    gate = gate_of({"task": "mul", "language": "zh", "min_accuracy": 0.5})
    with pytest.raises(UsageError, match=r"there are sums/add/en/builtin, .*sums/add/zh"):
        gate.check_matches([p for p in PLACES if (p.task, p.language) != ("mul", "zh")])


def test_two_rules_about_the_same_items_are_refused() -> None:
    """An item can belong to one rule only, but a metric rule may share it."""
    apart = gate_of(
        {"task": "add", "max_drop": 0.1}, {"task": "m*", "max_drop": 0.1}, {"metric": "m", "min": 0.1}
    )
    apart.check_matches(PLACES)
    both = gate_of({"task": "*d*", "max_drop": 0.1}, {"language": "zh", "min_accuracy": 0.1})
    with pytest.raises(UsageError, match=r"rules '\*d\*' and 'zh' are both about sums/add/zh/builtin"):
        both.check_matches(PLACES)


METRICS = {"sums": {"rate": "higher", "cost": "lower", "bias": "target:0.5", "size": "none"}}


WRONG_METRICS = [
    ({"metric": "rate", "max": 0.5}, "rate is better the higher it is: use min, not max"),
    ({"metric": "cost", "min": 0.5}, "cost is better the lower it is: use max, not min"),
    ({"metric": "rat", "min": 0.5}, "no metric 'rat'; there are bias, cost, rate, size"),
]


def test_unknown_metric_or_wrong_direction_is_refused() -> None:
    """An unknown metric, or a limit that does not fit the declared direction, is refused; others are accepted."""
    for rule, wanted in WRONG_METRICS:
        with pytest.raises(UsageError, match=f"gate.toml: rule 'rule 1': .*{wanted}"):
            gate_of(rule).check_metrics(METRICS)
    for rule in (
        {"metric": "rate", "min": 0.5},
        {"metric": "cost", "max": 1},
        {"metric": "bias", "min": 0.4, "max": 0.6},
    ):
        gate_of(rule).check_metrics(METRICS)
    # A benchmark that declares no metrics is checked at the end of the run.
    gate_of({"metric": "anything", "min": 0.5}).check_metrics({"mine": {}})


BOUNDED = {"sums": BenchmarkMetadata("Sums", "sum", bounded_metrics={"adjusted": "read_rate"})}


BOUNDS = [
    ([{"metric": "adjusted"}], True),
    ([{"metric": "adjusted", "task": "add"}, {"metric": "read_rate", "task": "sub"}], True),
    ([{"metric": "adjusted"}, {"metric": "read_rate", "task": "add"}], True),
    ([{"metric": "adjusted"}, {"metric": "read_rate", "group": "x"}], True),
    ([{"metric": "adjusted", "benchmark": "other"}], False),
    ([{"metric": "adjusted", "task": "add", "language": "en"}, {"metric": "read_rate", "task": "add"}], False),
]  # fmt: skip


def test_metric_that_leaves_replies_out_needs_a_limit_on_their_share() -> None:
    """A reply that has no answer lifts such a metric, so a second rule bounds the share for the same selection."""
    for rules, refused in BOUNDS:
        gate = gate_of(*[{"name": str(n), "min": 0.5, **rule} for n, rule in enumerate(rules)])
        lines = unbounded_rules(gate, BOUNDED)
        assert bool(lines) == refused
        assert all(
            'add a rule for the same selection with metric = "read_rate" and min' in line for line in lines
        )


GROUPS = [("rate", ("rate", None)), ("rate/", ("rate", "")), ("difference/+/-", ("difference", "+/-"))]


def test_a_metric_may_name_its_group(tmp_path: Path) -> None:
    """The group follows the first slash and may have slashes itself; without one, all groups are meant."""
    for metric, parts in GROUPS:
        # A metric may have any unit, so its limit need not be a fraction.
        [rule] = gate_file(tmp_path, f"[[rule]]\nmetric = '{metric}'\nmin = -3").rules
        assert (rule.metric, rule.group, rule.min) == (*parts, -3)
