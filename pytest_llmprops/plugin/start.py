"""What ``--model`` sets in motion; imported only then."""

from __future__ import annotations

import pytest

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.plugin import PLUGIN_NAME
from pytest_llmprops.plugin.options import resolve_settings
from pytest_llmprops.plugin.session import LLMSession


def start(config: pytest.Config) -> None:
    """Register the session's plugins.

    :raises pytest.UsageError: when an option cannot be used.
    """
    settings = resolve_settings(config)
    worker_input = getattr(config, "workerinput", None)
    try:
        session = LLMSession(config, settings, worker_input)
    except LLMPropsError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(session, PLUGIN_NAME)
    if worker_input is None:
        from pytest_llmprops.plugin.controller import Controller

        config.pluginmanager.register(Controller(config, session), "llmprops-controller")
    if config.getoption("allure_report_dir", None):
        from pytest_llmprops.plugin.allure import register

        register(config, session)
