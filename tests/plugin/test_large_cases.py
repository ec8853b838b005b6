"""Cases with several items, and sessions with very many cases."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.cuts import write_cuts
from tests.support.runs import Finished, Runner

LIGHT = "import pytest_llmprops.plugin.cases.light_items as light\nlight.LIGHT_CASES = 5\n"


def _light(run: Runner, more: str = "") -> None:
    run.write("conftest.py", LIGHT + more)


def _ids(done: Finished) -> list[str]:
    return re.findall(r"^test_cuts\.py::\S+", done.output, re.MULTILINE)


def _collected(run: Runner, model: str) -> str:
    return run("--model", model, "--collect-only").output


@pytest.mark.parametrize(("kind", "workers"), [("AtOnce", "2"), ("Base", "0")])
def test_group_records_every_item(run: Runner, workers: str, kind: str) -> None:
    """A case of ten items is one pytest case, with the same verdicts as ten cases of one item."""
    model = write_cuts(run, case="ten", kind=kind)
    grouped = run("--model", model, "-n", workers)
    assert "3 failed in" in grouped.output
    write_cuts(run)
    single = run("--model", model)
    assert len(grouped.verdicts) == 30
    assert grouped.verdicts == single.verdicts
    assert grouped.run["summary"] == single.run["summary"]
    assert (grouped.run["complete"], grouped.run["expected"]) == (True, 30)


def test_group_is_reported_in_one_line(run: Runner) -> None:
    """The node id has the case's name, the failure the number of wrong items, and Allure one table of them."""
    pytest.importorskip("allure_pytest")
    model = write_cuts(run, case="ten", errors=(7,))
    ids = _ids(run("--model", model, "--collect-only", "-q"))
    assert [i.partition("-cuts/")[2] for i in ids] == ["0]", "1]", "2]"]
    done = run("--model", model, "-rf", ids[0])
    assert "1 failed in" in done.output
    assert len(done.verdicts) == 10
    xml, folder = run.folder / "junit.xml", run.folder / "allure"
    run("--model", model, f"--junitxml={xml}", "--alluredir", str(folder))
    [first, *_] = ET.parse(xml).getroot().iter("testcase")
    properties = {p.get("name"): p.get("value") for p in first.iter("property")}
    assert [properties[f"llmprops.{name}"] for name in ("items", "wrong", "error")] == ["10", "1", "1"]
    [failure] = first.iter("failure")
    assert failure.text == "wrong: 1 of 10 items wrong, 1 errors: cuts/0/0004 (ends in 4)"
    results = [json.loads(p.read_text(encoding="utf-8")) for p in folder.glob("*-result.json")]
    assert sorted(r["name"] for r in results) == ["cuts/0", "cuts/1", "cuts/2"]
    [result] = [r for r in results if r["name"] == "cuts/1"]
    [table] = result["attachments"]
    text = (folder / table["source"]).read_text(encoding="utf-8")
    assert re.fullmatch(r"wrong\tcuts/1/0014\t.*ends in 4", text)
    assert result["statusDetails"]["message"].startswith("wrong: 1 of 10 items wrong")


def test_exception_at_one_item_of_a_group_is_shown(run: Runner) -> None:
    """An exception in the benchmark's code at one item is the case's error, with its traceback."""
    model = write_cuts(run, 20, case="ten", kind="Base")
    run.change("test_cuts.py", 'right = item["n"]', 'right = item["nn" if item["n"] == 3 else "n"]')
    done = run("--model", model)
    assert "1 failed, 1 error" in done.output
    assert "KeyError: 'nn'" in done.output
    assert done.verdicts["cuts/0/0003"]["status"] == "error"


def test_limit_counts_items_and_other_options_count_cases(run: Runner) -> None:
    """--llm-limit counts items, which stay in their cases; -k and -x are about whole cases."""
    model = write_cuts(run, case="ten")
    assert len(run("--model", model, "--llm-limit", "12").verdicts) == 12
    chosen = run("--model", model, "-k", "cuts/1")
    assert {v["cluster"] for v in chosen.verdicts.values()} == {"c1"}
    assert chosen.run["complete"] is True
    first = run("--model", model, "-x")
    assert (len(first.verdicts), first.run["complete"]) == (10, False)


def test_light_items_report_like_ordinary_ones(run: Runner, workers: str) -> None:
    """Light items have the node ids, verdicts, counts, exit status and JUnit report of ordinary ones."""
    model = write_cuts(run, errors=(7,))
    xml = run.folder / "junit.xml"
    ordinary = run("--model", model, "-n", workers, f"--junitxml={xml}")
    ids, report = _ids(run("--model", model, "--collect-only", "-q")), _junit(xml)
    _light(run)
    assert "<LightItem" in _collected(run, model)
    light = run("--model", model, "-n", workers, f"--junitxml={xml}")
    assert len(report) == 30
    assert _junit(xml) == report
    assert _ids(run("--model", model, "--collect-only", "-q")) == ids
    assert (light.code, light.verdicts) == (ordinary.code, ordinary.verdicts)
    assert light.run["summary"] == ordinary.run["summary"]
    for done in (ordinary, light):
        assert "3 failed, 26 passed, 1 error" in done.output
        assert "Traceback" not in done.output


#: writes which events a worker sends
WATCH = """
def pytest_collection_finish(session):
    for plugin in session.config.pluginmanager.get_plugins():
        if hasattr(plugin, "sendevent"):
            send = plugin.sendevent
            def sendevent(name, **values):
                with open("events", "a") as file:
                    file.write(name + chr(10))
                send(name, **values)
            plugin.sendevent = sendevent
"""


def test_workers_report_the_phases_that_are_read(run: Runner) -> None:
    """A worker sends one report of a light item; its start, teardown and end only if the controller shows them."""
    model = write_cuts(run)
    _light(run, WATCH)
    events = run.folder / "events"
    counted = []
    for options in ((), ("-v",), ("--junitxml=j.xml",)):
        done = run("--model", model, "-n", "2", *options)
        assert "3 failed, 27 passed" in done.output
        names = events.read_text(encoding="utf-8").split()
        events.unlink()
        counted.append([names.count(name) for name in ("logstart", "testreport", "logfinish")])
    assert counted == [[0, 30, 0], [30, 60, 30], [30, 60, 30]]


def test_selection_options_work_on_light_items(run: Runner) -> None:
    """Node ids, -k, -m, -x, --maxfail and --durations work on light items."""
    model = write_cuts(run)
    _light(run)
    ids = _ids(run("--model", model, "--collect-only", "-q"))
    assert set(run("--model", model, *ids[:6]).verdicts) == {f"cuts/0/{n:04d}" for n in range(6)}
    assert len(run("--model", model, "-k", "cuts/2").verdicts) == 10
    assert len(run("--model", model, "-m", "llmprops").verdicts) == 30
    assert len(run("--model", model, "-x").verdicts) == 5
    assert len(run("--model", model, "--maxfail", "2").verdicts) == 15
    assert "slowest 2 durations" in run("--model", model, "--durations", "2", "--durations-min", "0").output


@pytest.mark.parametrize("case", ["item", "ten"])
def test_last_failed_repeats_failed_cases(run: Runner, case: str) -> None:
    """--lf repeats the failed cases, light ones and those with several items."""
    model = write_cuts(run, 44, case=case, errors=tuple(range(20, 30)))
    _light(run)
    for extra in ((), ("--lf",)):
        done = run("--model", model, "-p", "cacheprovider", *extra)
    expected = 13 if case == "item" else 40
    assert done.code == 1
    assert len((done.folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()) == expected


def _junit(path: Path) -> dict[str | None, list[object]]:
    cases: dict[str | None, list[object]] = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        properties = sorted((p.get("name"), p.get("value")) for p in case.iter("property"))
        bad = [(child.tag, child.text) for child in case if child.tag in ("failure", "error")]
        cases[case.get("name")] = [case.get("classname"), properties, bad]
    return cases


def test_marks_added_after_collection_apply_to_light_items(run: Runner) -> None:
    """A mark that a conftest.py adds to a light item after collection is applied."""
    model = write_cuts(run)
    more = (
        "import pytest\ndef pytest_collection_modifyitems(items):\n"
        "    items[0].add_marker(pytest.mark.skip(reason='not today'))\n"
        "    items[4].add_marker(pytest.mark.xfail(reason='known'))\n"
    )
    _light(run, more)
    done = run("--model", model)
    assert "2 failed, 26 passed, 1 skipped, 1 xfailed" in done.output
    assert len(done.verdicts) == 29


def test_other_assertions_are_reported(run: Runner) -> None:
    """Further assertions after that of the verdict are reported as in any test, however many cases there are."""
    model = write_cuts(run, 10)
    run.change("test_cuts.py", "assert verdict\n", "assert verdict\n    assert len(verdict.given) < 6\n")
    _light(run)
    done = run("--model", model)
    assert "6 failed, 4 passed" in done.output
    assert [v["status"] for v in done.verdicts.values()].count("correct") == 9
    xml = run.folder / "junit.xml"
    run("--model", model, f"--junitxml={xml}")
    [[_, _, bad]] = [case for name, case in _junit(xml).items() if name and name.endswith("0001]")]
    assert "assert len(verdict.given) < 6" in str(bad)


ASYNC = """
@pytest.mark.llmprops(benchmark=AtOnce)
async def test_coroutine(verdict):
    assert verdict


@pytest.mark.llmprops(benchmark=AtOnce)
async def test_generator(verdict):
    yield verdict


def plain(function):
    def call(verdict):
        return function(verdict)
    return call


@pytest.mark.llmprops(benchmark=AtOnce)
@plain
async def test_decorated(verdict):
    assert verdict
"""


def test_function_that_nothing_awaits_fails(run: Runner) -> None:
    """A test function that is async, or whose decorator hides it, fails in each case, however many there are."""
    model = write_cuts(run, 10)
    run.change("test_cuts.py", "assert verdict\n", f"assert verdict\n{ASYNC}")
    _light(run)
    done = run("--model", model, "-q", "-k", "not test_cuts[")
    assert "30 failed, 10 deselected" in done.output
    assert done.output.count("async def functions are not natively supported") >= 30
    assert len(done.verdicts) == 10


AROUND = "@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_protocol(): return (yield)\n"
MARK, TEST = "@pytest.mark.llmprops(", "def test_cuts(verdict):\n    assert verdict\n"
#: what replaces text of the test file -> whether its items are light
CHANGES = {
    "nothing": (TEST, TEST, True),
    "docstring": (TEST, 'def test_cuts(verdict):\n    """Cut."""\n    assert verdict\n', True),
    "print": (TEST, "def test_cuts(verdict):\n    print(verdict)\n    assert verdict\n", False),
    "message": (TEST, "def test_cuts(verdict):\n    assert verdict, verdict.given\n", False),
    "mark": (MARK, f"@pytest.mark.xfail\n{MARK}", False),
    "fixture": ("def test_cuts(verdict)", "def test_cuts(verdict, tmp_path)", False),
    "autouse": (MARK, f"@pytest.fixture(autouse=True)\ndef every(): pass\n\n{MARK}", False),
    "module mark": (
        "import pytest\n",
        "import pytest\npytestmark = pytest.mark.filterwarnings('ignore')\n",
        False,
    ),
    "setup": ("import pytest\n", "import pytest\ndef setup_function(): pass\n", False),
}


def test_functions_that_prevent_light_items(run: Runner) -> None:
    """Items are light only if the function loses nothing: its marks, fixtures, set-up and output."""
    model = write_cuts(run, 10)
    _light(run)
    text = (run.folder / "test_cuts.py").read_text(encoding="utf-8")
    for number, (old, new, _) in enumerate(CHANGES.values()):
        changed = text.replace(old, new).replace('name = "cuts"', f'name = "cuts{number}"')
        run.write(f"test_{number}.py", changed.replace("cuts/", f"cuts{number}/"))
    (run.folder / "test_cuts.py").unlink()
    output = run("--model", model, "--collect-only").output
    for number, (change, (_, _, are_light)) in enumerate(CHANGES.items()):
        own = output.partition(f"<Module test_{number}.py>")[2].partition("<Module ")[0]
        assert ("<LightItem" in own, "<Function test_cuts" in own) == (are_light, not are_light), change


@pytest.mark.parametrize(
    ("hook", "needs", "workers"),
    [
        ("def pytest_runtest_logreport(report): pass\n", False, "2"),
        (AROUND, False, "0"),
        ("def pytest_runtest_setup(item): pass\n", True, "2"),
        ("def pytest_runtest_call(item): pass\n", True, "0"),
        ("def pytest_runtest_teardown(item): pass\n", True, "0"),
        ("def pytest_runtest_makereport(item, call): pass\n", True, "0"),
        ("def pytest_runtest_protocol(item): pass\n", True, "0"),
        ("def pytest_itemcollected(item): pass\n", True, "0"),
        ("def pytest_generate_tests(metafunc): pass\n", True, "0"),
    ],
)
def test_plugins_that_prevent_light_items(run: Runner, hook: str, needs: bool, workers: str) -> None:
    """Items are not light if the hook of a plugin would not be called; a line names it, also with workers."""
    model = write_cuts(run, 10)
    _light(run, f"import pytest\n{hook}")
    assert ("<LightItem" in _collected(run, model)) is not needs
    output = run("--model", model, "-n", workers).output
    assert ("needs pytest's own functions" in output) is needs
    if needs:
        name = hook.partition("(")[0].removeprefix("def ")
        assert f"llmprops: {name} of conftest needs pytest's own functions" in output


READ = """
import json, pytest

def read(item):
    values = {}
    for name in dir(pytest.Function) + ["fixturenames", "originalname", "funcargs", "own_markers"]:
        if not name.startswith("_") and name not in ("fspath", "id", "extra_keyword_matches"):
            value = getattr(item, name)
            if not callable(value) or name in ("obj", "function"):
                values[name] = repr(value)
    values.pop("callspec", None)
    for name in ("keywords", "stash", "session", "config", "ihook", "parent"):
        values.pop(name, None)
    values["names"] = [item.listnames(), item.getmodpath() if hasattr(item, "getmodpath") else None]
    values["is"] = isinstance(item, pytest.Function)
    values["words"] = sorted(set(map(str, item.keywords)))
    values["mark"] = item.get_closest_marker("llmprops").name
    values["extra"] = sorted(item.listextrakeywords())
    values["marks"] = [(node.name, mark.name) for node, mark in item.iter_markers_with_node()]
    return values

def pytest_collection_modifyitems(items):
    import re
    items[0].parent.extra_keyword_matches.add("above")
    items[0].extra_keyword_matches.add("own")
    items[1].add_marker("slow")
    text = json.dumps([read(item) for item in items], sort_keys=True)
    open("read.json", "w").write(re.sub("0x[0-9a-f]+", "", text))

def pytest_exception_interact(node, call, report):
    open("interact", "a").write(f"{node.name} {report.when} {call.excinfo.typename}\\n")

def pytest_runtest_logreport(report):
    if report.when == "call":
        open("properties", "a").write(f"{report.nodeid} {report.user_properties}\\n")
"""


def test_light_items_have_what_functions_have(run: Runner) -> None:
    """A plugin reads the same attributes, keywords, marks and failures from light items as from pytest's functions."""
    model = write_cuts(run, errors=(7,))
    seen = []
    for conftest in (READ, LIGHT + READ):
        run.write("conftest.py", conftest)
        run("--model", model)
        names = ("read.json", "interact", "properties")
        seen.append([(run.folder / name).read_text(encoding="utf-8") for name in names])
        for name in names:
            (run.folder / name).unlink()
    assert "<LightItem" in _collected(run, model)
    ordinary, light = seen
    for one, other in zip(json.loads(light[0]), json.loads(ordinary[0]), strict=True):
        assert one == other
    assert light[1:] == ordinary[1:]
    assert light[1]
    assert "llmprops.status" in light[2]


def test_a_decorator_that_raises_is_reported(run: Runner) -> None:
    """An exception around ``assert verdict`` is a failure of its case also among correct cases."""
    model = write_cuts(run, items=60)
    decorator = (
        "\nimport functools\nseen = []\n\ndef picky(test):\n    @functools.wraps(test)\n"
        "    def checked(verdict):\n        seen.append(verdict)\n        assert len(seen) != 43, 'the 43rd'\n"
        "        return test(verdict)\n    return checked\n"
    )
    run.change("test_cuts.py", "\n@pytest.mark.llmprops", f"{decorator}\n@pytest.mark.llmprops", 1)
    run.change("test_cuts.py", "def test_cuts", "@picky\ndef test_cuts")
    _light(run)
    done = run("--model", model)
    assert "the 43rd" in done.output
    assert "7 failed, 53 passed" in done.output
    assert len(done.verdicts) == 60


def test_garbage_collection_ignores_collected_items(run: Runner) -> None:
    """Before the first test, the collector is on again and ignores what was collected, also without evaluation."""
    model = write_cuts(run, 10)
    check = "import gc\ndef pytest_runtestloop(): print('\\nKEPT', gc.isenabled(), gc.get_freeze_count() > 1000)\n"
    check += "def pytest_sessionstart(): print('\\nRARE', gc.get_threshold()[0] >= 100_000)\n"
    _light(run, check)
    output = run("--model", model, "-s", "--collect-only").output
    assert "KEPT True True" in output
    assert "RARE True" in output


TWICE = """
import gc, logging, pathlib, sys
import pytest

def state():
    return gc.get_threshold(), gc.get_freeze_count(), type(logging.Logger.manager.loggerDict), list(sys.meta_path)

import pytest_llmprops.plugin
def finders():
    return [finder for finder in sys.meta_path if type(finder).__module__.startswith("pytest_llmprops")]

class Seen:
    def pytest_sessionstart(self):
        seen.append((gc.get_threshold()[0], type(logging.Logger.manager.loggerDict) is dict))

for options in (["test_plain.py"], ["test_sums.py", "--model", sys.argv[1]], ["test_plain.py"]):
    seen = []
    before = state()[:3]
    pytest.main(["-q", "-p", "no:cacheprovider", *options], plugins=[Seen()])
    print("STATE", seen[0], state()[:3] == before, finders())
"""


def test_a_process_is_left_as_it_was(run: Runner) -> None:
    """Without a model, the plugin changes nothing of the process; with one, it restores what it changed."""
    run.sums(3)
    run.write("test_plain.py", "def test_plain(): pass\n")
    run.write("twice.py", TWICE)
    command = [sys.executable, "twice.py", run.adder]
    # the settings that other tests leave in this process are not those of a user
    done = subprocess.run(command, cwd=run.folder, env=run.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    plain, measured, again = re.findall(r"^STATE (.*)$", done.stdout, re.M)
    assert plain == again == "(700, True) True []"
    assert measured == "(200000, False) True []"
