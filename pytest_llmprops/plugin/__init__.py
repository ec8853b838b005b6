"""The pytest plugin. This module is imported by every pytest run of an environment that has the
package installed, so it imports next to nothing until ``--model`` is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_llmprops.core.verdicts import Verdict

MARKER = "llmprops"
NO_MODEL = "no model chosen: pass --model SPEC, for example --model smollm2 or --model gpt-4o"
PLUGIN_NAME = "llmprops-session"


def pytest_addoption(parser: pytest.Parser) -> None:
    from pytest_llmprops.plugin.options import add_options

    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        # A class must be given by keyword: pytest takes a mark called with one class for a decorator.
        f"{MARKER}(name) or {MARKER}(benchmark=CLASS): one case an item of the benchmark, for each --model",
    )
    # The ini file may hold the models, too: both are looked up without resolving anything else.
    if config.getoption("llm_model") or config.getini("llm_model"):
        from pytest_llmprops.plugin.start import start

        start(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.pluginmanager.get_plugin(PLUGIN_NAME)
    if session is not None:
        session.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None or "verdict" not in metafunc.fixturenames:
        return
    session = metafunc.config.pluginmanager.get_plugin(PLUGIN_NAME)
    if session is not None:
        session.parametrize(metafunc, marker)
        return
    skip = pytest.mark.skip(reason=NO_MODEL)
    metafunc.parametrize("verdict", [pytest.param("no-model", marks=skip)], indirect=True, ids=["no-model"])
    metafunc.config.stash[_SKIPPED] = True


_SKIPPED = pytest.StashKey[bool]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash.get(_SKIPPED, False):
        terminalreporter.write_line(f"llmprops: {NO_MODEL}")


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """The judgement of this case's item; true exactly when the model was right.

    Its parameter is the case's short id, ``<model label>-<item id>``. Where a case has several items it is a
    :class:`~pytest_llmprops.engine.groups.GroupVerdict`: true when the model was right on all.

    Waits until the model's replies are in. A call that could not be made is an error of the set-up.
    """
    session: Any = request.config.pluginmanager.get_plugin(PLUGIN_NAME)
    result: Verdict = session.verdict(request.node)
    return result
