"""Searches for counterexamples through pytest: results, counts, records and unchanged measurements."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given

from fixtures.strategies import replacements
from pytest_llmprops import BackendError, Benchmark, Item, Protocol, Reply
from pytest_llmprops.core.requests import Request
from pytest_llmprops.engine.evaluation.evaluator import Asking, Case
from pytest_llmprops.plugin.searching import Search
from tests.support.allure import results_by_item, texts
from tests.support.runs import DEFAULT_PLUGINS, ROOT, Finished, Runner
from tests.support.terminal import on_terminal

#: an extractor of six entities; it appends each request as a line to asked.jsonl in its folder
EXTRACTOR = """
import json, pathlib
from pytest_llmprops import BackendError

LOG = pathlib.Path(__file__).with_name("asked.jsonl")
ENTITIES = [
    ("Adriana", "person", "Tobias"), ("Lisbon", "city", "Nairobi"), ("Kenya", "country", "Norway"),
    ("Globex", "company", "Initech"), ("Rain Season", "film", "Salt Road"), ("Danube", "river", "Mekong"),
]

def reply(chat):
    text = chat.messages[-1].content
    sentence = text[text.index('"') + 1 :].split('"\\n\\n')[0]
    with LOG.open("a", encoding="utf-8") as log:
        log.write(json.dumps([sentence, chat.sample]) + "\\n")
    x = [synonym in sentence for _, _, synonym in ENTITIES]
    names = [synonym if x[i] else name for i, (name, _, synonym) in enumerate(ENTITIES)]
    kinds = [kind for _, kind, _ in ENTITIES]
    mentioned = [(i, name) for i, name in enumerate(names) if name in sentence]
    BEHAVIOUR
    return "\\n".join(f"{n}. {kinds[i]}: {name}" for n, (i, name) in enumerate(mentioned, 1)) or "None"
"""
#: in sentences that begin with Pair, the replacement of Lisbon is lost where Adriana and Globex are replaced, too
PAIRED = """
    if sentence.startswith("Pair") and x[0] and x[1] and x[3]:
        mentioned = [(i, name) for i, name in mentioned if i != 1]
"""
TAIL = "Adriana left Lisbon for Kenya when Globex sold Rain Season beside the Danube."
SUITE = "test_oracle.py"
#: where the searches on pairs begin, which have no case here
PAIR_SEARCHES = '@pytest.mark.llmprops("oracle", search="no")'


class Project:
    """A folder with the suite, sentences, a pool of one name per class, and the extractor."""

    def __init__(self, run: Runner) -> None:
        self.runner = run
        run.plugins = (*DEFAULT_PLUGINS, "hypothesispytest")
        self.folder = run.folder
        (run.folder / "data" / "oracle").mkdir(parents=True)
        run.write("data/oracle/SOURCE.json", '{"source": "generated"}')
        pool = json.loads((ROOT / "data" / "oracle" / "pool.json").read_text(encoding="utf-8"))
        own = {
            "person": "Tobias", "city": "Nairobi", "country": "Norway", "company": "Initech", "film": "Salt Road",
            "river": "Mekong",
        }  # fmt: skip
        pool["classes"] = {kind: [own.get(kind, names[0])] for kind, names in pool["classes"].items()}
        run.write("data/oracle/pool.json", json.dumps(pool))
        suite = (ROOT / "suites" / SUITE).read_text(encoding="utf-8")
        run.write(SUITE, suite.partition(PAIR_SEARCHES)[0])
        self.extractor()
        self.sentences(*(f"{word} {n}: {TAIL}" for n in range(2) for word in ("Pair", "Fine")))

    def sentences(self, *lines: str) -> None:
        """Write the items."""
        self.runner.write("data/oracle/sentences.txt", "".join(f"{line}\n" for line in lines))

    def extractor(self, behaviour: str = PAIRED) -> None:
        """Write the model."""
        self.runner.write("extractor.py", EXTRACTOR.replace("BEHAVIOUR", behaviour.strip() or "pass"))

    @property
    def options(self) -> tuple[str, ...]:
        """pytest's options: one test per sentence, so that all are accepted, and samples for a long search."""
        data = str(self.folder / "data")
        model = f"fake:call?file={self.folder / 'extractor.py'}"
        return (
            "--model", model, "--llm-data", data, "--llm-set", "oracle.tests=1",
            "--llm-set", "oracle.samples=25", "-q",
        )  # fmt: skip

    def __call__(self, *more: str, **settings: Any) -> Finished:
        changed = [
            part for name, value in settings.items() for part in ("--llm-set", f"oracle.{name}={value}")
        ]
        return self.runner(SUITE, *self.options, *changed, *more)

    @property
    def asked(self) -> list[tuple[str, int]]:
        """Return every request that reached the model."""
        lines = (self.folder / "asked.jsonl").read_text(encoding="utf-8").splitlines()
        return [tuple(json.loads(line)) for line in lines]


@pytest.fixture
def project(run: Runner) -> Project:
    """A folder ready for a search."""
    return Project(run)


def searches(done: Finished) -> dict[str, dict[str, Any]]:
    """Return ``searches.jsonl`` by item."""
    lines = (done.folder / "searches.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def test_a_search_finds_what_the_measurement_accepts(project: Project, workers: str) -> None:
    """The counterexample of an accepted sentence names what is replaced; the other sentences have none.

    A search changes no verdict, count, metric or completeness, and has separate counts.
    """
    unsearched = project("--llm-cache", "off", search="none")
    done = project("-n", workers, "-rs")
    assert done.code == 1
    assert "2 failed, 6 passed" in done.output
    rows = searches(done)
    assert len(rows) == 4
    assert all(row["examples"] >= 10 for row in rows.values() if not row["counterexample"])
    found = {name: row["counterexample"] for name, row in rows.items() if row["counterexample"]}
    assert sorted(found) == ["oracle/own/0001", "oracle/own/0003"]
    for said in found.values():
        assert {*said["x"], *said["y"]} == {"Adriana", "Lisbon", "Globex"}
        assert (said["replaced"], said["entities"], said["culprits"]) == (3, 6, ["Lisbon"])
        assert TAIL in said["evidence"]["sentence"]
    line = next(line for line in done.output.splitlines() if line.startswith("search (linearity): "))
    examples, calls = (sum(row[name] for row in rows.values()) for name in ("examples", "calls"))
    assert line.startswith(
        f"search (linearity): 4 items searched, 2 counterexamples, {examples:,} examples, {calls:,} calls"
    )
    assert "  oracle/own/0003: 3 of 6 entities replaced" in done.output
    assert "Traceback" not in done.output
    assert "Falsifying example" not in done.output
    with_it, without = (
        {name: row | {"requests": []} for name, row in r.verdicts.items()} for r in (done, unsearched)
    )
    assert with_it == without
    for name in ("expected", "complete", "summary", "metrics", "remarks"):
        assert done.run[name] == unsearched.run[name]
    assert (done.run["complete"], done.run["expected"], len(with_it)) == (True, 4, 4)
    [row] = done.run["searches"]
    counts = {"benchmark": "oracle", "searched": 4, "counterexamples": 2, "errors": 0}
    assert counts.items() <= row.items()
    assert not unsearched.run["searches"]
    assert not (unsearched.folder / "searches.jsonl").exists()
    assert "4 passed in " in unsearched.output


def test_a_rejected_sentence_is_not_searched(project: Project) -> None:
    """Its rejection is the counterexample."""
    project.extractor("mentioned = [] if any(x) else mentioned")
    done = project("-rs")
    assert "4 failed, 4 skipped" in done.output
    assert "not searched: its answer is unfaithful" in done.output


def test_a_search_is_about_the_first_sample(project: Project) -> None:
    """In a run with repeats, each item is searched once, and nothing is asked twice."""
    done = project("--llm-repeats", "2")
    assert done.run["summary"][0]["samples"] == 8
    assert len(searches(done)) == 4
    assert len(project.asked) == len(set(project.asked))


def test_nothing_is_asked_twice(project: Project) -> None:
    """Measurement and search send each request once; shrinking costs only the new sentences it tries.

    A search takes a quarter of the measurement's calls and those of its replications, and says it was cut short.
    A second search uses only the store, tries the same examples and finds the same counterexample.
    """
    done = project()
    assert len(project.asked) == len(set(project.asked)) == done.run["calls"]["sent"]
    [row] = done.run["searches"]
    alone = project("--llm-cache", "off", search="none")
    assert done.run["calls"]["sent"] == alone.run["calls"]["sent"] + row["calls"]
    # Each search also repeats the requests of the extraction. The verdict is kept.
    own = sum(25 + row["requests"] for row in searches(done).values())
    assert done.run["calls"]["requests"] == alone.run["calls"]["requests"] + own
    again = project("--llm-cache", "only", "-n", "2")
    assert again.code == 1
    assert again.run["calls"]["sent"] == 0
    assert again.run["complete"] is True
    uncounted = [{name: {**row, "calls": 0} for name, row in searches(one).items()} for one in (done, again)]
    assert uncounted[0] == uncounted[1]
    assert {row["calls"] for row in searches(again).values()} == {0}
    for row in searches(done).values():
        again_at_most = 3 * 3 * 5 + 2 if row["counterexample"] else 0
        assert row["requests"] <= 25 + again_at_most
        assert row["spent"]
        assert row["calls"] > 0
    assert "4 stopped when their calls were spent" in done.output
    assert "the calls were spent before it was shrunk further" in done.output


def test_selecting_only_the_searches(project: Project) -> None:
    """If its measurement is deselected, a search measures the sentence itself and records no verdict."""
    done = project("-k", "test_oracle_search", "-n", "2")
    assert "2 failed, 2 passed" in done.output
    assert (done.folder / "verdicts.jsonl").read_text(encoding="utf-8") == ""
    assert done.run["complete"] is True
    assert done.run["expected"] == 0
    assert len(searches(done)) == 4


def test_what_is_not_repeated_is_no_counterexample(project: Project) -> None:
    """A violation that does not repeat is counted apart and shown with its rate, and fails no case."""
    project.sentences("Fine: Adriana left Lisbon for Kenya.")
    # The first samples lose Nairobi with Tobias, and those of replications do not.
    project.extractor(
        'mentioned = [f for f in mentioned if f[1] != "Nairobi" or not x[0] or chat.sample > 24]'
    )
    done = project("--junitxml", "out.xml")
    [row] = searches(done).values()
    assert row["counterexample"] is None
    assert (row["not_repeated"]["replicated"], row["not_repeated"]["replications"]) == (0, 2)
    assert "2 passed" in done.output
    assert "0 counterexamples, " in done.output
    assert "; 1 not repeated" in done.output
    [line] = [
        line for line in done.output.splitlines() if line.startswith("  oracle/own/0001: not repeated: ")
    ]
    assert "; repeats in 0 of 2" in line
    report = (project.folder / "out.xml").read_text(encoding="utf-8")
    assert "llmprops.search.not_repeated" in report
    assert "llmprops.search.counterexample" not in report
    counts = done.run["searches"][0]
    assert (counts["counterexamples"], counts["not_repeated"]) == (0, 1)


GATE = '[[rule]]\nbenchmark = "oracle"\nmin_items = 1\nmin_accuracy = '


def test_gate_ignores_searches(project: Project) -> None:
    """A gate ignores counterexamples."""
    gate = str(project.runner.write("gate.toml", GATE + "0.39\n"))
    done = project("--llm-gate", gate, "-n", "2")
    assert done.code == 0, done.output
    assert done.run["gate"]["decision"] == "pass"
    assert done.run["searches"][0]["counterexamples"] == 2


BROKEN = f"""{PAIRED}
    if MARKED:
        return BackendError("the server broke", kind="status 500")
"""


def test_a_call_that_fails_is_an_error(project: Project) -> None:
    """A model failure in a search is a one-line error, not a counterexample, and changes no verdict."""
    known = project(search="none")
    asked = sorted({sentence for sentence, _ in project.asked})
    project.extractor(BROKEN.replace("MARKED", f"sentence not in {asked!r}"))
    # For the store this is another model, so every request is sent again.
    done = project("-n", "2")
    assert done.code == 1
    assert "4 passed, 4 errors" in done.output
    assert "backend error: the server broke" in done.output
    assert "Traceback" not in done.output
    assert "4 ended by a backend error" in done.output
    rows = searches(done)
    assert all(row["error"] == "the server broke" and row["counterexample"] is None for row in rows.values())
    statuses = [{name: row["status"] for name, row in run.verdicts.items()} for run in (done, known)]
    assert statuses[0] == statuses[1]
    assert done.run["complete"] is True
    gate = str(project.runner.write("gate.toml", GATE + "0.05\n"))
    assert project("--llm-gate", gate).code == 0


class Failing:
    """A property that fails to get a reply from the third point on."""

    size, tried = 5, 0

    async def holds(self, *point: int) -> bool:
        self.tried += 1
        if self.tried >= 3:
            raise BackendError("the server broke")
        return True

    async def counterexample(self) -> None:
        """Not called."""


def test_hypothesis_shrinks_no_error() -> None:
    """The search ends at the first point that gives an error; otherwise hypothesis would try to shrink it."""
    item = Item("doubles/1", "double", "en")
    case = Case(Benchmark(), item, None, Protocol("quick", None), "m")

    async def nobody(label: str, role: str, request: Request) -> Reply:
        raise AssertionError

    failing = Failing()
    search = Search(case, "", failing, Asking(case, nobody), asyncio.run)

    @given(replacements(search.size))
    def linear(vectors: tuple[int, int]) -> None:
        assert search.holds(*vectors)

    with pytest.raises(BackendError, match="the server broke"):
        search.run(linear)
    assert failing.tried == search.examples == 3


def test_a_measurement_in_error_is_not_searched(project: Project) -> None:
    """If the measurement of the sentence is an error, its search is skipped without requests."""
    project.extractor(BROKEN.replace("MARKED", 'sentence.startswith("Fine")'))
    done = project("-rs", samples=3)
    assert "4 passed, 2 skipped, 2 errors" in done.output
    assert "not searched: the item's case is an error" in done.output
    assert sorted(searches(done)) == ["oracle/own/0001", "oracle/own/0003"]


def test_budget_of_the_run_ends_a_search(project: Project) -> None:
    """A search that uses up --llm-max-calls stops the run, and the next run continues from the store."""
    measured = project("--llm-cache", "off", search="none").run["calls"]["sent"]
    done = project("--llm-max-calls", str(measured + 30))
    assert done.code == 2
    assert "4 passed, 1 skipped" in done.output
    assert "RunStopped" not in done.output
    assert f"--llm-max-calls {measured + 30} is spent" in done.output
    assert len(done.verdicts) == 4
    assert len(searches(project())) == 4


def test_interrupted(project: Project) -> None:
    """Ctrl-C in a search ends the run, and every verdict and every finished search is recorded."""
    project.sentences(*(f"Pair {n}: {TAIL}" for n in range(12)))
    slow = project.options[1] + "&delay=0.02"
    options = [slow if option == project.options[1] else option for option in project.options]
    started = project.runner.start(SUITE, *options)
    found, until = started.folder / "searches.jsonl", time.monotonic() + 60
    while not (found.exists() and found.read_text("utf-8")) and time.monotonic() < until:
        time.sleep(0.02)
    started.send(signal.SIGINT)
    done = started.end(60)
    assert done.code == 2
    assert len(done.verdicts) == 12
    assert 1 <= len(searches(done)) < 12
    assert "Traceback" not in done.output
    assert "never awaited" not in done.output
    assert "was destroyed" not in done.output


def test_live_line_counts_searches(project: Project) -> None:
    """The terminal progress line counts all searches, including skipped ones, and prints no result letters."""
    options = [f"{o}&delay=0.05" if o == project.options[1] else o for o in project.options]
    shown = on_terminal(project.runner, SUITE, *options, "-n", "2")
    lines = [line for line in shown.split("\r") if "/8 cases" in line]
    assert any(f"{n}/8 cases" in line for line in lines for n in (5, 6, 7, 8)), lines
    assert "\x1b[33ms" not in shown


IMPORTED = """
import sys
def pytest_sessionfinish():
    print("IMPORTED", "hypothesis" in sys.modules)
"""


def without_hypothesis(project: Project, conftest: str) -> Project:
    """Return the project without hypothesis's plugin, with this conftest and in a fresh process."""
    project.runner.write("conftest.py", conftest)
    project.runner.plugins, project.runner.fresh = DEFAULT_PLUGINS, True
    return project


def test_hypothesis_is_imported_late(project: Project) -> None:
    """Neither a run without a model, which says which option to pass, nor collection imports hypothesis."""
    done = without_hypothesis(project, IMPORTED).runner(SUITE, "-s")
    assert done.code == 0
    assert "2 skipped" in done.output
    assert "IMPORTED False" in done.output
    assert done.output.count("no model chosen: pass --model SPEC") == 1
    collected = project("--collect-only", "-s")
    assert "IMPORTED False" in collected.output
    assert "test_oracle_search[" in collected.output


def test_without_hypothesis(project: Project) -> None:
    """Without hypothesis, searches are skipped with one line on how to install it, and the measurement runs."""
    project = without_hypothesis(project, "import sys\nsys.modules['hypothesis'] = None\n")
    done = project("-rs")
    assert "4 passed, 1 skipped" in done.output
    assert "pip install 'pytest-llmprops[oracle]'" in done.output
    assert done.run["complete"] is True


def test_named_search_without_items_says_so(project: Project) -> None:
    """With ``search=none``, a run that names a search says why nothing is searched."""
    done = project("-rs", "-k", "search", search="none")
    assert "not searched: oracle has no item to search under these settings" in done.output


def test_plan_counts_the_calls_of_searches(project: Project) -> None:
    """The plan says how many calls the searches take at most: a quarter of those of the tests."""
    done = project("--llm-plan")
    # 25 samples of the sentence and of three changed ones.
    said = f"4 searches for counterexamples to accepted answers: at most {4 * (4 * 25 // 4)} further calls"
    assert said in done.output
    assert not (project.folder / "asked.jsonl").exists()


def test_allure_and_junit_show_the_counterexample(project: Project) -> None:
    """A search has its own Allure result, with the item's name and labels and the counterexample attached.

    Searches that found a counterexample are in Allure's category of counterexamples and in no other.
    JUnit output has the examples, calls and counterexample as properties of the search's test case.
    """
    folder = project.folder / "allure"
    done = project("--alluredir", str(folder), "--junitxml", "out.xml", "-n", "2")
    cases = ElementTree.parse(project.folder / "out.xml").getroot().iter("testcase")
    [own] = [c for c in cases if re.search("_search.*oracle/own/0001]$", c.get("name", ""))]
    properties = {p.get("name"): p.get("value") for p in own.iter("property")}
    assert int(properties["llmprops.search.examples"] or 0) > 0
    assert "depends on the others" in (properties["llmprops.search.counterexample"] or "")
    by_name = results_by_item(folder)
    result = by_name["oracle/own/0001 · linearity search"]
    assert result["status"] == "failed"
    assert "counterexample: 3 of 6" in result["statusDetails"]["message"]
    assert "Nairobi" in texts(folder, result)["counterexample"]
    assert _labels(result) == _labels(by_name["oracle/own/0001"]) != set()
    assert not list(folder.glob("*-container.json"))
    assert len(searches(done)) == 4
    categories = json.loads((folder / "categories.json").read_text(encoding="utf-8"))
    matching = {}
    for name, result in by_name.items():
        said = result.get("statusDetails", {}).get("message", "")
        matching[name] = [
            category["name"]
            for category in categories
            if result["status"] in category["matchedStatuses"] and re.search(category["messageRegex"], said)
        ]
    for number in ("0001", "0003"):
        assert matching.pop(f"oracle/own/{number} · linearity search") == ["Counterexamples"]
    assert not any(matching.values())


def _labels(result: dict[str, Any]) -> set[tuple[str, str]]:
    wanted = ("epic", "feature", "story", "parentSuite")
    return {(x["name"], x["value"]) for x in result["labels"] if x["name"] in wanted}


SUMS = """
import pytest
from pytest_llmprops import Benchmark, Chat, Item, Verdict
from pytest_llmprops.core.benchmark import Counterexample


class Sum:
    "The model adds a number and `other` correctly."
    size = 100

    def __init__(self, ask, other):
        self.ask, self.other, self.bad = ask, other, None

    async def holds(self, n):
        held = (await self.ask(Chat.user(f"{n} {self.other}"))).text == str(n + self.other)
        self.bad = self.bad if held else min(n, self.bad or n)
        return held

    async def counterexample(self):
        return None if self.bad is None else Counterexample(f"{self.bad} and {self.other}", {"n": self.bad})


class Sums(Benchmark):
    name = "sums"
    properties = ("one", "two")

    def load(self, files):
        return [Item(f"sums/{n}", "add", "en") for n in (1, 2)]

    async def evaluate(self, item, context, ask, protocol):
        return Verdict.check((await ask(Chat.user("1 1"))).text == "2", expected="2", given="2")

    def searches(self, item, settings, name):
        return name != "two" or item.id == "sums/2"

    async def search(self, item, context, ask, protocol, measured, name):
        return Sum(ask, 1 if name == "one" else 2) if (await measured()) else "it cannot add one"


def run(search):
    from hypothesis import given, strategies

    @given(strategies.integers(0, search.size))
    def added(n):
        MORE
        assert search.holds(n)

    search.run(added)


@pytest.mark.llmprops(benchmark=Sums)
def test_sum(verdict):
    assert verdict


@pytest.mark.llmprops(benchmark=Sums, search="one")
def test_one(search):
    run(search)


@pytest.mark.llmprops(benchmark=Sums, search="two")
def test_two(search):
    run(search)
"""
#: the same with one property, which has no name
ONE_SUM = SUMS.replace(', search="one"', "").partition('@pytest.mark.llmprops(benchmark=Sums, search="two")')[
    0
]
ONE_SUM = ONE_SUM.replace('    properties = ("one", "two")\n', "")
#: from 37 on, only sums with 1 are right
ADDER = """
def reply(chat):
    a, b = map(int, chat.prompt.split())
    return str(a + b if a < 37 or b == 1 else 0)
"""


def sums(run: Runner, suite: str, *more: str, body: str = "pass") -> Finished:
    """Run a suite of sums on the adder."""
    run.write("adder.py", ADDER)
    run.write("test_sums.py", suite.replace("MORE", body))
    return run("--model", f"fake:call?file={run.folder / 'adder.py'}", *more)


def test_a_benchmark_with_two_properties(run: Runner, workers: str) -> None:
    """The marker names the property: each has its own cases, record, counts and line."""
    done = sums(run, SUMS, "-n", workers)
    assert "1 failed, 4 passed" in done.output
    lines = [json.loads(line) for line in (done.folder / "searches.jsonl").read_text("utf-8").splitlines()]
    assert {(line["property"], line["id"]): line["counterexample"] for line in lines} == {
        ("one", "sums/1"): None,
        ("one", "sums/2"): None,
        ("two", "sums/2"): {"why": "37 and 2", "n": 37, "evidence": {}},
    }
    assert {(row["property"], row["searched"]) for row in done.run["searches"]} == {("one", 2), ("two", 1)}
    assert "search (two): 1 item searched, 1 counterexample" in done.output


@pytest.mark.parametrize(
    ("suite", "marker", "said"),
    [
        (SUMS, "three", "llmprops(search='three'): no such property; the benchmark has one, two"),
        (SUMS, "", "llmprops(search=''): no such property; the benchmark has one, two"),
        (ONE_SUM, "one", "the benchmark has only one, so leave out search="),
    ],
    ids=["unknown", "none", "only one"],
)
def test_an_unknown_property_is_named(run: Runner, suite: str, marker: str, said: str) -> None:
    """A marker without a property, or with an unknown one, is one line that lists the properties."""
    plain = suite.replace(', search="one"', "")
    named = f"llmprops(benchmark=Sums{f', search={marker!r}' if marker else ''})\ndef test_one"
    done = sums(run, plain.replace("llmprops(benchmark=Sums)\ndef test_one", named))
    assert done.code == 2
    assert said in done.output


@pytest.mark.parametrize(("body", "has_counterexample"), [("pass", True), ('assert n < 20, "mine"', False)])
def test_custom_benchmark(run: Runner, body: str, has_counterexample: bool) -> None:
    """Any benchmark can be searched; an assertion in the test fails normally, without a counterexample."""
    done = sums(run, ONE_SUM, body=body)
    assert done.code == 1
    assert "2 failed, 2 passed" in done.output
    assert ("sums/1: 37 and 2" in done.output) == has_counterexample
    assert ("AssertionError: mine" in done.output) != has_counterexample
    assert (done.folder / "searches.jsonl").exists() == has_counterexample
    if has_counterexample:
        assert [row["counterexample"]["n"] for row in searches(done).values()] == [37, 37]


def test_many_items(run: Runner) -> None:
    """More than a thousand searches run in one process without a RecursionError from nested settings."""
    many = ONE_SUM.replace("for n in (1, 2)", "for n in range(1100)").replace("size = 100", "size = 1")
    done = sums(run, many, "-q", "-k", "test_one")
    assert "RecursionError" not in done.output
    assert "1100 passed" in done.output
    assert len(searches(done)) == 1100
