"""The pytest plugin.

Every pytest run imports this module once the package is installed, so it imports almost nothing without ``--model``.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmprops import NEEDS_MODEL

if TYPE_CHECKING:
    from pytest_llmprops.core.verdicts import Verdict
    from pytest_llmprops.engine.evaluation.evaluator import GroupVerdict
    from pytest_llmprops.plugin.searching import Search
    from pytest_llmprops.plugin.session import LLMSession

MARKER = "llmprops"
NO_MODEL = "no model chosen: pass --model SPEC, for example --model smollm2 or --model gpt-4o"
#: options of a session that must not pass without a measurement
_MEASURING = ("llm_gate", "llm_baseline", "llm_max_calls", "llm_max_cost", "llm_limit")
_SESSION: pytest.StashKey[LLMSession] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    from pytest_llmprops.plugin.options import add_options

    add_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Name the option that is meant by one that is misspelled; the options of all plugins are known here.

    :raises pytest.UsageError: with both.
    """
    from pytest_llmprops.plugin.options import OPTIONS

    own = {"--model", *(f"--{option.name}" for option in OPTIONS if not option.is_ini_only)}
    keys = {f"--{option.name}": option.dest for option in OPTIONS if option.is_ini_only}
    names = {word.partition("=")[0]: f"--llm-{word.partition('=')[0][2:]}" for word in args}
    if all(not name.startswith(("--l", "--m")) and longer not in own for name, longer in names.items()):
        return
    from pytest_llmprops.core.texts import did_you_mean

    unknown = [word.partition("=")[0] for word in parser.parse_known_and_unknown_args(args)[1]]
    for name in filter(names.__contains__, unknown):
        if key := keys.get(name):
            raise pytest.UsageError(
                f"{name}: is only an ini key: write {key} = VALUE in pytest.ini, or pass -o {key}=VALUE"
            )
        near = f"; did you mean {names[name]}?" if names[name] in own else ""
        if not near and name.startswith(("--l", "--m")):
            near = did_you_mean(name, own)
        if near:
            raise pytest.UsageError(f"{name}: unknown option{near}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        # A class needs the keyword: pytest uses a mark that is called with one class as a decorator.
        f"{MARKER}(name) or {MARKER}(benchmark=CLASS): one case per item of the benchmark, for each --model;"
        " search=NAME: the property that the fixture search is about, if the benchmark has several",
    )
    is_required = os.environ.pop(NEEDS_MODEL, "") == "1"
    # The ini file may name the models, too. No other option is read yet.
    if config.getoption("llm_model") or config.getini("llm_model"):
        from pytest_llmprops.plugin.hooks import start

        config.stash[_SESSION] = start(config)
        return
    given = [f"--{name.replace('_', '-')}: " for name in _MEASURING if config.getoption(name) is not None]
    if given or is_required:
        raise pytest.UsageError("".join(given[:1]) + NO_MODEL)
    config.pluginmanager.register(WithoutModel(), "llmprops-without-model")


class WithoutModel:
    """Reports that the suites were skipped because no model was chosen."""

    def __init__(self) -> None:
        self._has_skipped = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # With pytest-xdist, only reports reach the controller.
        self._has_skipped |= report.skipped and NO_MODEL in str(report.longrepr)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield
        # A gate in the ini file concerns the suites only: other tests run without a model.
        if self._has_skipped and session.config.getini("llm_gate"):
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if self._has_skipped:
            gate = config.getini("llm_gate")
            terminalreporter.write_line(f"{f'ERROR: llm_gate {gate}' if gate else 'llmprops'}: {NO_MODEL}")


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int | None, int | None]:
    code = yield
    session = config.stash.get(_SESSION, None)
    if code != pytest.ExitCode.OK or session is None or session.gating is None:
        return code
    from pytest_llmprops.plugin.options import shown_only
    from pytest_llmprops.records.gate import exit_code

    # With --fixtures, pytest returns 0 whatever the exit status of the session is.
    return exit_code(None) if shown_only(config.option, session.settings) else code


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(_SESSION, None)
    if session is not None:
        session.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None:
        return
    from pytest_llmprops.plugin.cases.markers import argument_of

    name = argument_of(metafunc)
    if name is None:
        # The mark of a class or a module may apply to other functions, too.
        if marker in metafunc.definition.own_markers:
            raise pytest.Collector.CollectError(
                f"{metafunc.function.__name__} has the marker {MARKER} but no argument 'verdict' (or 'search'), so"
                " nothing would be measured; add the argument"
            )
        return
    session = metafunc.config.stash.get(_SESSION, None)
    if session is not None:
        session.collection.parametrize(metafunc, marker)
        return
    skip = pytest.mark.skip(reason=NO_MODEL)
    metafunc.parametrize(name, [pytest.param("no-model", marks=skip)], indirect=True, ids=["no-model"])


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict | GroupVerdict:
    """Return the verdict on this case's item; true exactly if the model's answer is correct.

    The parameter is the case's name, ``<model label>-<item id>``. For a case with several items, or several samples
    of its item (``--llm-repeats``), return a
    :class:`~pytest_llmprops.engine.evaluation.evaluator.GroupVerdict`: true if all answers are correct.

    Waits for the model's replies. A failed call is an error of the case's setup.
    """
    return _session_of(request).evaluation.verdict(request.node)


@pytest.fixture
def search(request: pytest.FixtureRequest) -> Search:
    """Return the search for a counterexample to a property of this case's item.

    If the benchmark has several properties, the marker names one: ``llmprops("oracle", search="symmetry")``.
    The parameter is the case's name, ``<model label>-<item id>``. ``search.holds(*point)`` returns whether the
    property holds at a point. ``search.run(test)`` runs ``test``, a function under ``@given`` that asserts it, and
    fails with one line on the smallest counterexample. A search has no verdict and is counted separately.
    """
    return _session_of(request).searching.begin(request.node)


def _session_of(request: pytest.FixtureRequest) -> LLMSession:
    """Return the session, or fail the setup of a test that was not given a case in :func:`pytest_generate_tests`."""
    if not hasattr(request, "param"):
        pytest.fail(
            f"the fixture '{request.fixturename}' needs the marker {MARKER}: write @pytest.mark.{MARKER}(...) above"
            f' {request.node.name}, with a benchmark\'s name, "htest", or its class, benchmark=MyClass',
            pytrace=False,
        )
    return request.config.stash[_SESSION]
