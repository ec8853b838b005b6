"""Cases with several items, and sessions with very many cases."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.allure import results, texts
from tests.support.cuts import write_cuts
from tests.support.runs import Finished, Runner

LIGHT = "import pytest_llmprops.plugin.cases.light_items as light\nlight.LIGHT_CASES = 5\n"


def _light(run: Runner, more: str = "") -> None:
    run.write("conftest.py", LIGHT + more)


def _ids(done: Finished) -> list[str]:
    return re.findall(r"^test_cuts\.py::\S+", done.output, re.MULTILINE)


def test_group_is_reported_in_one_line(run: Runner) -> None:
    """The node id has the case's name, the failure the number of wrong items, and Allure one table of them.

    A case of ten items is one pytest case, with the same verdicts as ten cases of one item.
    """
    pytest.importorskip("allure_pytest")
    model = write_cuts(run, case="ten", errors=(7,))
    ids = _ids(run("--model", model, "--collect-only", "-q"))
    assert [i.partition("-cuts/")[2] for i in ids] == ["0]", "1]", "2]"]
    done = run("--model", model, "-rf", ids[0])
    assert "1 failed in" in done.output
    assert len(done.verdicts) == 10
    xml, folder = run.folder / "junit.xml", run.folder / "allure"
    grouped = run("--model", model, f"--junitxml={xml}", "--alluredir", str(folder))
    assert "3 failed in" in grouped.output
    [first, *_] = ET.parse(xml).getroot().iter("testcase")
    properties = {p.get("name"): p.get("value") for p in first.iter("property")}
    assert [properties[f"llmprops.{name}"] for name in ("items", "wrong", "error")] == ["10", "1", "1"]
    [failure] = first.iter("failure")
    assert failure.text == "wrong: 1 of 10 items wrong, 1 errors: cuts/0/0004 (ends in 4)"
    by_title = results(folder)
    assert sorted(by_title) == ["cuts/0", "cuts/1", "cuts/2"]
    [text] = texts(folder, by_title["cuts/1"]).values()
    assert re.fullmatch(r"wrong\tcuts/1/0014\t.*ends in 4", text)
    assert by_title["cuts/1"]["statusDetails"]["message"].startswith("wrong: 1 of 10 items wrong")
    write_cuts(run, errors=(7,))
    single = run("--model", model)
    assert len(grouped.verdicts) == grouped.run["expected"] == 30
    assert (grouped.verdicts, grouped.run["summary"]) == (single.verdicts, single.run["summary"])


def test_light_items_report_like_ordinary_ones(run: Runner) -> None:
    """Light items have the node ids, verdicts, counts, exit status and JUnit report of ordinary ones."""
    model = write_cuts(run, errors=(7,))
    xml = run.folder / "junit.xml"
    ordinary = run("--model", model, "-n", "2", f"--junitxml={xml}")
    ids, report = _ids(run("--model", model, "--collect-only", "-q")), _junit(xml)
    _light(run)
    assert "<LightItem" in run("--model", model, "--collect-only").output
    light = run("--model", model, "-n", "2", f"--junitxml={xml}")
    assert len(report) == 30
    assert _junit(xml) == report
    assert _ids(run("--model", model, "--collect-only", "-q")) == ids
    assert (light.code, light.verdicts) == (ordinary.code, ordinary.verdicts)
    assert light.run["summary"] == ordinary.run["summary"]
    for done in (ordinary, light):
        assert "3 failed, 26 passed, 1 error" in done.output
        assert "Traceback" not in done.output


def test_selection_options_work_on_light_items(run: Runner) -> None:
    """Node ids, -k, -x, --maxfail and --durations work on light items, and --lf also on those of several items."""
    model = write_cuts(run)
    _light(run)
    ids = _ids(run("--model", model, "--collect-only", "-q"))
    assert set(run("--model", model, *ids[:6]).verdicts) == {f"cuts/0/{n:04d}" for n in range(6)}
    assert len(run("--model", model, "-k", "cuts/2").verdicts) == 10
    assert len(run("--model", model, "-x").verdicts) == 5
    slowest = run("--model", model, "--maxfail", "2", "--durations", "2", "--durations-min", "0")
    assert (len(slowest.verdicts), "slowest 2 durations" in slowest.output) == (15, True)
    for case, expected in (("item", 13), ("ten", 40)):
        write_cuts(run, 44, case=case, errors=tuple(range(20, 30)))
        run("--model", model, "-p", "cacheprovider")
        done = run("--model", model, "-p", "cacheprovider", "--lf")
        lines = (done.folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
        assert (done.code, len(lines)) == (1, expected)


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


ASYNC = """
@pytest.mark.llmprops(benchmark=Cuts)
async def test_coroutine(verdict):
    assert verdict


def plain(function):
    def call(verdict):
        return function(verdict)
    return call


@pytest.mark.llmprops(benchmark=Cuts)
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
    assert "20 failed, 10 deselected" in done.output
    assert done.output.count("async def functions are not natively supported") >= 20
    assert len(done.verdicts) == 10


AROUND = "@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_protocol(): return (yield)\n"


#: hooks of a conftest.py -> whether its items cannot be light
HOOKS = {
    "def pytest_runtest_logreport(report): pass\n": False,
    AROUND: False,
    "def pytest_runtest_call(item): pass\n": True,
    "def pytest_runtest_protocol(item): pass\n": True,
    "def pytest_itemcollected(item): pass\n": True,
    "def pytest_generate_tests(metafunc): pass\n": True,
    "def pytest_runtest_setup(item): pass\n": True,
}
MARK, TEST = "@pytest.mark.llmprops(", "def test_cuts(verdict):\n    assert verdict\n"
#: what replaces text of the test file -> whether its items are light
CHANGES = {
    "nothing": (TEST, TEST, True),
    "docstring": (TEST, 'def test_cuts(verdict):\n    """Cut."""\n    assert verdict\n', True),
    "print": (TEST, "def test_cuts(verdict):\n    print(verdict)\n    assert verdict\n", False),
    "second": (TEST, "def test_cuts(verdict):\n    assert verdict\n    assert verdict.given\n", False),
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


def test_plugins_that_prevent_light_items(run: Runner) -> None:
    """Items are not light if the hook of a plugin would not be called; a line names it, also with workers."""
    model = write_cuts(run, 10)
    for hook, needs in HOOKS.items():
        _light(run, f"import pytest\n{hook}")
        assert ("<LightItem" in run("--model", model, "--collect-only").output) is not needs, hook
    output = run("--model", model, "-n", "2").output
    assert "llmprops: pytest_runtest_setup of conftest needs pytest's own functions" in output


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

class Cycle:
    def __init__(self):
        self.own = self

    def __del__(self):
        print("FINALIZED")

Cycle()
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
    # The end of the process skips what lived through the run, not what was dropped since.
    assert "FINALIZED" in done.stdout
