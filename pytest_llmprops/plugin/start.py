"""Register the plugin's parts; imported only with ``--model``."""

from __future__ import annotations

import pytest

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.plugin.hooks import CaseHooks
from pytest_llmprops.plugin.options import resolve_options
from pytest_llmprops.plugin.session import LLMSession


def start(config: pytest.Config) -> LLMSession:
    """Create the session and register the hooks that this process needs.

    :raises pytest.UsageError: if an option cannot be used.
    """
    settings = resolve_options(config)
    worker_input = getattr(config, "workerinput", None)
    try:
        session = LLMSession(config, settings, worker_input)
    except LLMPropsError as error:
        raise pytest.UsageError(str(error)) from None
    register = config.pluginmanager.register
    register(CaseHooks(session), "llmprops-session")
    controller = None
    if worker_input is None:
        from pytest_llmprops.plugin.controller import Controller

        if settings.plan:
            # A plan makes no calls, so workers would be idle.
            config.option.dist = "no"
        controller = Controller(config, session)
        if settings.plan:
            from pytest_llmprops.plugin.plan_only import PlanOnly

            register(PlanOnly(session), "llmprops-plan")
        elif controller.is_distributed:
            from pytest_llmprops.plugin.distributed import Distributed

            register(Distributed(controller), "llmprops-distributed")
        elif not config.option.collectonly:
            session.evaluation.import_sdks()
        register(controller, "llmprops-controller")
    if config.getoption("allure_report_dir", None):
        from pytest_llmprops.plugin.allure import register_allure

        register_allure(config, session, controller)
    return session
