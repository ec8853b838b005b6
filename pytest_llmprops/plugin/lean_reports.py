"""Reports of correct lean items without pytest's hooks, which take as long as everything else that a case needs.

A large run has a report for each case only so that pytest's terminal prints a letter and counts it. If no other plugin
reads the reports, the letters of a group are written together, through pytest's terminal reporter.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops.plugin.lean_items import OWN, LeanItem, Source, module_of
from pytest_llmprops.plugin.lean_protocol import RERAISE
from pytest_llmprops.plugin.recording import Recording
from pytest_llmprops.plugin.terminal import Terminal

#: what does nothing with the report of a passed case, or what this module stands in for
_READERS = {"session", "terminalreporter", "lfplugin", "logging-plugin", "llmprops-controller"}


class CorrectCases:
    """Runs correct lean items, and reports them together.

    Pytest's hooks must have reported one correct item of the same test function before.
    """

    def __init__(self, config: pytest.Config, terminal: Terminal, recording: Recording) -> None:
        self._config, self._terminal, self._recording = config, terminal, recording
        #: the test function whose last item pytest's hooks reported
        self._source: Source | None = None
        self._is_possible: bool | None = None
        #: number of cases that the terminal does not show yet
        self._waiting = 0

    def _check(self) -> bool:
        """Whether nobody else reads the reports; the same for all groups, since it is asked after collection."""
        config = self._config
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        hook = config.hook
        reads = (hook.pytest_runtest_logreport, hook.pytest_runtest_logstart, hook.pytest_runtest_logfinish)
        return (
            self._terminal.number is not None
            and not reporter.showlongtestinfo
            and config.get_verbosity(pytest.Config.VERBOSITY_TEST_CASES) <= 0
            and all(impl.plugin_name in _READERS for read in reads for impl in read.get_hookimpls())
            and all(
                module_of(impl.plugin).startswith(OWN)
                for impl in hook.pytest_report_teststatus.get_hookimpls()
            )
        )

    def is_possible(self, source: Source) -> bool:
        """Whether correct items of a test function may be reported together now."""
        if self._is_possible is None:
            self._is_possible = self._check()
        return self._is_possible and source is self._source and not source.properties

    def note_reported(self, source: Source) -> None:
        """Note that pytest's hooks have reported an item of a test function, so that its file is shown."""
        self._source = source if self._terminal.has_passed else None

    def run(self, item: LeanItem) -> pytest.CallInfo[Any] | None:
        """Run an item whose verdict is correct, and report it with the next :meth:`show`.

        Return how it ended if it did not pass, because a decorator of the test function raised something.
        """
        try:
            item.run()
        except RERAISE:
            raise
        except BaseException as error:
            raised = error

            def again() -> None:
                raise raised

            return pytest.CallInfo.from_call(again, when="call", reraise=RERAISE)
        outcome = item.outcome
        assert outcome is not None
        self._waiting += 1
        self._recording.add_verdict(outcome.records[0])
        item.teardown()
        return None

    def show(self) -> None:
        """Show the items so far in the terminal, and count them."""
        number, self._waiting = self._waiting, 0
        if number:
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            self._terminal.add_correct(number, reporter)
