"""Runs behind the personalities of APIs in ``fixtures/apis.py`` have the verdicts of runs behind a plain server."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from fixtures.apis import (
    APIS,
    KEY,
    THINKING,
    Answer,
    Api,
    Bill,
    Call,
    Mistake,
    claude_adaptive,
    gpt_5,
    kimi,
    plain,
    serving,
    table,
    thinking,
)
from pytest_llmprops.cli.run import project_files
from pytest_llmprops.runs.replies import read_requests
from tests.support.runs import ROOT, Finished, Runner

#: the benchmark of `init`, and two items of each suite that every way of asking is among
SELECTED = (
    "cities or dtails/af/know or dtails/gl/know or eras/explicit/01 or eras/implicit/0 or htest/rhyme"
    " or htest/spelled_math or homophones/en/0025 or oracle/general/043 or (oracle/pair/068 and consistency)"
)
OPTIONS = (
    "--llm-size", "small", "--llm-limit", "2", "--llm-cache", "off", "--llm-set", "eras.samples=2", "-q",
    "--llm-yes",
    "-k", SELECTED,
)  # fmt: skip


def write_benchmark(run: Runner) -> None:
    """Write the benchmark of `init`."""
    for name in ("test_capitals.py", "capitals.jsonl"):
        run.write(name, project_files()[f"example/{name}"].decode("utf-8"))


def measured(run: Runner, *args: str, env: Mapping[str, str]) -> Finished:
    """Return a finished run of the benchmark of `init` and the suites."""
    suites = (str(run.folder / "test_capitals.py"), str(ROOT / "suites"), "--rootdir", str(run.folder))
    # The fork server needs this package, which the environment with litellm lacks.
    run.fresh = importlib.util.find_spec("allure_commons") is None
    # Without a helper, spaCy's would be loaded.
    return run(*suites, "--llm-helper", "parse=words", *OPTIONS, *args, env=env, timeout=280)


#: USD per million tokens of input, output, cached input, and input written into the cache
PRICES = (1.0, 10.0, 0.1, 1.25)


def priced(run: Runner, names: Iterable[str]) -> tuple[str, str]:
    """Return the option that gives these models their prices."""
    table = {"usd_per_million_tokens": dict.fromkeys(names, PRICES)}
    return "-o", f"llm_prices={run.write('prices.json', json.dumps(table))}"


def measured_together(
    run: Runner,
    servers: Mapping[str, tuple[Callable[[Call], Answer], str]],
    bills: Mapping[str, Bill] | None = None,
) -> Finished:
    """Return a finished run on models by their names, each with its server and the path of its address.

    The path of Anthropic's API is empty.
    """
    write_benchmark(run)
    with ExitStack() as stack:
        models = [*priced(run, servers)]
        for name, (respond, path) in servers.items():
            url = stack.enter_context(serving(respond, (bills or {}).get(name)))
            backend = "openai" if path else "anthropic"
            models += ["--model", f"{backend}:{name}?base_url={url}{path}"]
        done = measured(run, *models, env={"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY})
    assert (done.folder / "run.json").exists(), done.output
    assert "Traceback" not in done.output
    return done


def statuses(done: Finished, model: str = "") -> dict[str, str]:
    """Return the status of each verdict, on one of several models."""
    lines = (done.folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if model in ("", row["model"])]
    return {row["id"]: row["status"] for row in rows}


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return a run behind a plain server, with and without log probabilities."""
    run = Runner(tmp_path_factory.mktemp("plain"))
    done = measured_together(run, {f"m{logprobs}": (plain(logprobs), "/v1") for logprobs in (True, False)})
    assert not any(done.run["deviations"].values())
    return done


@pytest.fixture(scope="module")
def expected(plain_run: Finished) -> dict[bool, dict[str, str]]:
    """Return the statuses behind a plain server, by whether it returns log probabilities."""
    found = {logprobs: statuses(plain_run, f"m{logprobs}") for logprobs in (True, False)}
    seen = {status for one in found.values() for status in one.values()}
    assert {"correct", "wrong"} <= seen <= {"correct", "wrong", "unparsed", "untested"}, plain_run.output
    return found


def test_verdicts_do_not_depend_on_thoughts(run: Runner, expected: dict[bool, dict[str, str]]) -> None:
    """All suites, and a user's benchmark, have the plain server's verdicts, however and however long a model thinks."""
    forms = [*((form, 100) for form in THINKING), ("field", 20_000), ("<think>", 5)]
    servers = {f"m{n}": (thinking(THINKING[form], length), "/v1") for n, (form, length) in enumerate(forms)}
    done = measured_together(run, servers)
    for name, form in zip(servers, forms, strict=True):
        assert statuses(done, name) == expected[False], (form, done.output)


def test_longer_thoughts_are_errors(run: Runner) -> None:
    """What llm_max_thinking does not allow is an error of each item, never a wrong or an unread answer."""
    write_benchmark(run)
    with serving(thinking(THINKING["<think>"], 9_000)) as url:
        # Benchmarks that set no limit, or a long one, have room for such a thought. More items would stop the run.
        few = ("-o", "llm_max_thinking=50", "-k", "htest/rhyme")
        model = ("--model", "openai:m", "--llm-base-url", f"{url}/v1")
        done = measured(run, *model, *few, env={"OPENAI_API_KEY": KEY})
    assert set(statuses(done).values()) == {"error"}, done.output
    assert "llm_max_thinking" in done.output


def paid(done: Finished, model: str = "") -> float:
    """Return what the record says that the replies cost, also those that are not used; by default of all models."""
    lines = (done.folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if "prefix_id" not in row and model in ("", row["model"])]
    return sum(float(row["cost_usd"]) for row in rows)


def printed(done: Finished) -> float:
    """Return the cost in the summary of a run."""
    [line] = [line for line in done.output.splitlines() if line.startswith("calls: ")]
    [text] = re.findall(r"tokens(?: \([\d,]+ cached\))?, ([\d.]+) USD", line)
    return float(text)


def check(api: Api, done: Finished, model: str, expected: Mapping[bool, Mapping[str, str]]) -> None:
    """Check the verdicts, deviations and notes of an API."""
    assert statuses(done, model) == {**expected[not api.samples], **api.statuses}, (api.name, done.output)
    assert sorted(done.run["deviations"].get(model, [])) == sorted(api.deviations), api.name
    for note in api.notes:
        assert note in done.output, api.name


#: base models have no chats: the run is refused
CHATS = [api for api in APIS if api.name != "vllm-base"]
#: the APIs that need nothing but an address
PLAIN = [api for api in CHATS if api.model in ("openai:m", "anthropic:m") and not api.args]
OTHERS = [api for api in CHATS if api not in PLAIN]


def test_verdicts_are_those_behind_a_plain_server(run: Runner, expected: dict[bool, dict[str, str]]) -> None:
    """Each API gives the plain server's verdicts; a run records what was adapted, and notes the rest."""
    assert len(PLAIN) > 10
    bills = {f"m{n}": Bill() for n in range(len(PLAIN))}
    done = measured_together(run, {f"m{n}": (api.respond, api.path) for n, api in enumerate(PLAIN)}, bills)
    for n, api in enumerate(PLAIN):
        check(api, done, f"m{n}", expected)
        assert paid(done, f"m{n}") == pytest.approx(bills[f"m{n}"].usd(*PRICES), rel=0.03), api.name
    assert printed(done) == pytest.approx(sum(bill.usd(*PRICES) for bill in bills.values()), rel=0.03)
    assert printed(done) == pytest.approx(paid(done), rel=0.01)
    # llama.cpp refuses up to three calls while it loads its model, and the busy servers refuse some.
    assert done.run["calls"]["refused"] > 3


@pytest.mark.parametrize("api", OTHERS, ids=lambda api: api.name)
def test_verdicts_of_other_apis(run: Runner, expected: dict[bool, dict[str, str]], api: Api) -> None:
    """The same for APIs that need litellm, a header or a parameter."""
    if api.model.startswith("litellm:") and importlib.util.find_spec("litellm") is None:
        pytest.skip("needs the extra 'litellm'")
    write_benchmark(run)
    bill = Bill()
    with serving(api.respond, bill) as url:
        model = ("--model", api.model, "--llm-base-url", url + api.path)
        prices = priced(run, [api.model.partition(":")[2]])
        done = measured(run, *model, *prices, *api.args, env={api.key_variable: KEY})
    assert (done.folder / "run.json").exists(), done.output
    assert "Traceback" not in done.output
    [label] = done.run["models"]
    check(api, done, label, expected)
    assert printed(done) == pytest.approx(bill.usd(*PRICES), rel=0.03), done.output


@pytest.mark.parametrize(
    ("api", "mistake"),
    [pytest.param(api, m, id=f"{api.name}-{m.says}") for api in APIS for m in api.mistakes],
)
def test_mistake_of_a_user_is_one_line(run: Runner, api: Api, mistake: Mistake) -> None:
    """What a user must set is said in one line that has the API's words, before the run begins."""
    write_benchmark(run)
    with serving(mistake.respond or api.respond) as url:
        address = url + (mistake.path or api.path)
        model = mistake.model or api.model
        done = run(
            "--model", model, "--llm-base-url", address, *api.args, *mistake.args, env={api.key_variable: mistake.key}
        )  # fmt: skip
    lines = [line for line in done.output.splitlines() if line.startswith("ERROR: ")]
    assert (done.code, len(lines)) == (4, 1), done.output
    assert mistake.says in lines[0]
    assert not done.folder.exists()


def test_table_of_the_measurements_is_that_of_the_personalities() -> None:
    """bench/README.md has the table of ``fixtures/apis.py``."""
    assert table() in (ROOT / "bench" / "README.md").read_text(encoding="utf-8"), table()


@contextmanager
def started(*command: str, ready: str, **variables: str) -> Iterator[str]:
    """Start a server on this machine, and yield its address when it answers.

    :param command: ``PORT`` is replaced. :param ready: the path that answers. :param variables: of its environment.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    words = [port if word == "PORT" else word for word in command]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(words, env=os.environ | variables, stdout=output, stderr=subprocess.STDOUT)
        try:
            for _ in range(1000):
                with contextlib.suppress(OSError), urllib.request.urlopen(url + ready, timeout=5):
                    break
                assert process.poll() is None, output.seek(0) or output.read()
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def installed(server: str, path: str) -> str:
    """Return the path of a program in an environment that ``make`` installs; skip the test without it."""
    program = ROOT / f".venv-{server}" / path
    if not program.exists():
        pytest.skip(f"needs {server}: make {server}")
    return str(program)


@pytest.mark.parametrize(
    "specs",
    [
        pytest.param(
            (
                "openai:chat?base_url=URL/v1",
                "openai:responses?api=responses&base_url=URL/v1",
                "anthropic:claude?base_url=URL",
            ),
            id="sdks",
        ),
        pytest.param(("litellm:gemini/m",), id="gemini/m"),
    ],
)
def test_verdicts_behind_aimock(
    run: Runner, plain_run: Finished, expected: dict[bool, dict[str, str]], specs: tuple[str, ...]
) -> None:
    """A server that imitates the APIs of OpenAI, Anthropic and Gemini (github.com/CopilotKit/aimock)."""
    program = installed("aimock", "node_modules/.bin/llmock")
    if specs[0].startswith("litellm:") and importlib.util.find_spec("litellm") is None:
        pytest.skip("needs the extra 'litellm'")
    calls = list(read_requests(plain_run.folder).each())
    replies = {call.request["messages"][-1][1]: call.reply.text for call in calls}
    # It takes the first fixture whose text is in the last message of the user.
    fixtures = [
        {"match": {"userMessage": prompt}, "response": {"content": reply}}
        for prompt, reply in sorted(replies.items(), key=lambda pair: -len(pair[0]))
    ]
    file = run.write("aimock.json", json.dumps({"fixtures": fixtures}))
    write_benchmark(run)
    command = (program, "--port", "PORT", "--fixtures", str(file), "--log-level", "silent")
    with started(*command, ready="/health") as url:
        models = [word for spec in specs for word in ("--model", spec.replace("URL", url))]
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
        done = measured(run, *models, "--llm-base-url", f"{url}/v1beta", env=keys)
    assert (done.folder / "run.json").exists(), done.output
    for label in done.run["models"]:
        assert statuses(done, label) == expected[False], (label, done.output)


#: the models of LiteLLM's proxy: the API behind it, its provider, and whether it returns log probabilities
BEHIND_PROXY = {
    "plain": (plain(True), "openai", True),
    "gpt-5": (gpt_5, "openai", False),
    "kimi": (kimi, "openai", False),
    "claude": (claude_adaptive, "anthropic", False),
}


def test_verdicts_behind_litellms_proxy(run: Runner, expected: dict[bool, dict[str, str]]) -> None:
    """The proxy changes requests and answers, and wraps the errors of the APIs behind it."""
    program = installed("litellm-proxy", "bin/litellm")
    write_benchmark(run)
    with ExitStack() as stack:
        listed = []
        for name, (respond, provider, _) in BEHIND_PROXY.items():
            url = stack.enter_context(serving(respond)) + ("/v1" if provider == "openai" else "")
            behind = {"model": f"{provider}/{name}", "api_base": url, "api_key": KEY}
            listed.append({"model_name": name, "litellm_params": behind})
        # JSON is YAML.
        config = run.write("proxy.yaml", json.dumps({"model_list": listed}))
        command = (program, "--config", str(config), "--host", "127.0.0.1", "--port", "PORT")
        proxy = stack.enter_context(
            started(*command, ready="/health/liveliness", LITELLM_LOCAL_MODEL_COST_MAP="True")
        )
        models = [word for name in BEHIND_PROXY for word in ("--model", f"openai:{name}")]
        done = measured(run, *models, "--llm-base-url", f"{proxy}/v1", env={"OPENAI_API_KEY": KEY})
    for name, (_, _, has_logprobs) in BEHIND_PROXY.items():
        assert statuses(done, name) == expected[has_logprobs], (name, done.output)
    assert all(row["request_id"] for row in done.requests)


#: what a gateway answers to some prompts
BLOCKS: dict[str, Answer] = {
    "3 + 1 =": (413, {}, {"error": {"message": "Request Entity Too Large"}}),
    "11 + 1 =": (403, {}, {"error": {"message": "Request blocked by the firewall"}}),
    "19 + 1 =": (404, {}, {"detail": "Not Found"}),
    "27 + 1 =": (200, {}, "<!DOCTYPE html><html><body>Access denied</body></html>"),
    "35 + 1 =": (200, {}, ""),
}


def adds(call: Call) -> Answer:
    """Answer a sum."""
    message = {"role": "assistant", "content": str(int(call.prompt.split()[0]) + 1)}
    return 200, {}, {"model": "m", "choices": [{"finish_reason": "stop", "message": message}]}


def test_gateway_that_blocks_some_prompts_costs_only_their_items(run: Runner) -> None:
    """Errors in a few ways are counted by a gate and measured again by a resumed run; all other verdicts stay."""
    run.sums(40)
    gate = run.write("gate.toml", '[[rule]]\nbenchmark = "sums"\nmin_accuracy = 0.5\nmax_errors = 0.2\n')
    blocked, asked = True, Counter[str]()

    def gateway(call: Call) -> Answer:
        if call.prompt not in BLOCKS:
            return adds(call)
        asked[call.prompt] += 1
        return BLOCKS[call.prompt] if blocked else adds(call)

    with serving(gateway) as url:
        options = ("--model", "openai:m", "--llm-base-url", f"{url}/v1", "-o", "llm_retries=1")
        first = run(*options, "--llm-gate", str(gate))
        assert asked.keys() == BLOCKS.keys()
        assert min(asked.values()) > 1
        errors = {name for name, status in statuses(first).items() if status == "error"}
        assert errors == {"sums/0003", "sums/0011", "sums/0019", "sums/0027", "sums/0035"}
        assert first.run["complete"]
        [row] = first.run["summary"]
        assert (row["items"], row["errors"], row["correct"]) == (40, 5, 35)
        assert "\nPASS: " in first.output, first.output
        resumed = (*options, "--llm-run", str(first.folder), "--llm-resume")
        again = run(*resumed)
        assert "35 verdicts kept" in again.output, again.output
        assert first.run["complete"]
        assert first.run["summary"][0]["errors"] == 5
        blocked = False
        assert run(*resumed).code == 0
    assert first.run["summary"][0]["correct"] == 40
