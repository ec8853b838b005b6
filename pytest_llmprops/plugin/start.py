"""Register the plugin's parts; imported only with ``--model``."""

from __future__ import annotations

import pytest

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.strict_json import is_unicode
from pytest_llmprops.engine.store.location import default_store
from pytest_llmprops.models.dotenv_file import read_dotenv
from pytest_llmprops.plugin.hooks import CaseHooks
from pytest_llmprops.plugin.options import resolve_options
from pytest_llmprops.plugin.session import LLMSession, prepare_process


def start(config: pytest.Config) -> LLMSession:
    """Create the session and register the hooks that this process needs.

    :raises pytest.UsageError: if an option cannot be used.
    """
    # Imports and collection make hundreds of thousands of objects that stay.
    config.add_cleanup(prepare_process())
    worker_input = getattr(config, "workerinput", None)
    # Workers inherit the environment.
    dotenv = read_dotenv() if worker_input is None else ""
    settings = resolve_options(config)
    if settings.engine == "batch" and worker_input is None:
        from pytest_llmprops.plugin.session import resumed

        settings = resumed(config, settings)
    try:
        if settings.store is None and settings.cache != "off":
            # Fail early if the user has no folder for it.
            default_store()
        session = LLMSession(config, settings, worker_input)
        session.dotenv = dotenv
    except LLMPropsError as error:
        raise pytest.UsageError(str(error)) from None
    register = config.pluginmanager.register
    register(CaseHooks(session), "llmprops-session")
    controller = None
    if worker_input is None:
        from pytest_llmprops.plugin.controller import Controller
        from pytest_llmprops.plugin.preflight import Preflight

        if settings.plan:
            # A plan makes no calls, so workers would be idle.
            config.option.dist = "no"
        if config.getoption("dist", "no") != "no":
            _check_unicode(config)
        controller = Controller(config, session)
        preflight = Preflight(config, controller)
        preflight.check()
        if settings.plan:
            from pytest_llmprops.plugin.estimate import PlanOnly

            register(PlanOnly(session), "llmprops-plan")
        elif controller.is_distributed:
            from pytest_llmprops.plugin.distributed import Distributed

            register(Distributed(controller), "llmprops-distributed")
        elif not config.option.collectonly:
            session.evaluation.import_sdks()
        # Before the controller, which opens the record.
        register(preflight, "llmprops-preflight")
        register(controller, "llmprops-controller")
    if config.getoption("allure_report_dir", None):
        from pytest_llmprops.plugin.allure import register_allure

        register_allure(config, session, controller)
    return session


def _check_unicode(config: pytest.Config) -> None:
    """Check that pytest-xdist can send the command line and the folders to workers.

    :raises pytest.UsageError: for a path that is not UTF-8.
    """
    for text in (
        *map(str, config.invocation_params.args),
        str(config.invocation_params.dir),
        str(config.rootpath),
    ):
        if not is_unicode(text):
            shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise pytest.UsageError(f"{shown}: workers need paths in UTF-8; rename it, or use -n 0")
