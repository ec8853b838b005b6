"""``llmprops run --resume`` on the record of someone else runs none of its code, and sends no key to its addresses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_llmprops.cli.run import resume_arguments
from pytest_llmprops.reports.terminal import next_command
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.recorded_command import FROM_RECORD
from tests.support.gated_runs import command
from tests.support.runs import Finished, Runner
from tests.support.servers import JsonHandler, serving
from tests.support.terminal import answering

KEY = "sk-of-this-user-1"
#: leaves a file behind when it runs
EVIL = "from pathlib import Path\nPath({file!r}).write_text('ran')\n"


def retry(run: Runner, *words: str, env: Mapping[str, str] | None = None) -> Finished:
    """Run ``llmprops run --resume`` with ``words`` in the user's folder."""
    return command(run, "run", "--resume", *words, env=env)


def recorded(run: Runner, *more: str, env: Mapping[str, str] | None = None) -> Finished:
    """Return a run whose three cases ended in errors."""
    run.sums(3)
    run.write("adder.py", "def reply(chat):\n    return RuntimeError('overloaded')\n")
    return run("--model", run.adder, "-o", "llm_retries=0", *more, env=env)


def change_command(done: Finished, *words: str) -> None:
    """Give the record another command, as a stranger can."""
    facts = done.run
    facts["options"]["command"] = list(words)
    (done.folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")


class Stranger:
    """A server of a stranger, which fails or answers, and notes the headers of each call."""

    def __init__(self) -> None:
        self.calls: list[dict[str, str]] = []
        self.is_failing = True
        outer = self

        class Handler(JsonHandler):
            def do_POST(self) -> None:
                self.read_body()
                outer.calls.append({name.lower(): text for name, text in self.headers.items()})
                message = {"role": "assistant", "content": "1"}
                answer = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
                self.send_json(*(({"error": {"message": "busy"}}, 500) if outer.is_failing else (answer,)))

            def do_GET(self) -> None:
                outer.calls.append({name.lower(): text for name, text in self.headers.items()})
                self.send_json({}, 404)

        self.handler = Handler
        self.url = ""


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """Return a running server."""
    server = Stranger()
    with serving(server.handler) as url:
        server.url = url
        yield server


def failed_run(run: Runner, stranger: Stranger, *more: str) -> Finished:
    """Return a run with errors, whose command names the stranger's server; the server then answers."""
    run.sums(3)
    done = run("--model", "openai:m", "--llm-base-url", stranger.url, "-o", "llm_retries=0", *more)
    assert {row["status"] for row in done.verdicts.values()} == {"error"}, done.output
    stranger.is_failing = False
    stranger.calls.clear()
    return done


#: options that let pytest run code of the record
LOADING = (
    "-p", "evil", "-pevil", "-c", "{record}/evil.ini", "-o", "addopts=-p evil", "--rootdir", "{record}",
    "@{record}/arguments", "-k", "@{record}/arguments", "--confcutdir=/", "--pdbcls=evil:Evil", "--pdb",
    "--llm-helper", "reader=fake:call?file={record}/evil.py",
)  # fmt: skip


@pytest.mark.parametrize(
    ("place", "words"),
    [("test-colleague", ("{record}/test_evil.py",)), ("test-colleague", LOADING), ("outside", LOADING)],
    ids=["file", "options", "options outside"],
)
def test_code_of_a_record_is_not_run(
    run: Runner, tmp_path_factory: pytest.TempPathFactory, place: str, words: tuple[str, ...]
) -> None:
    """Neither test files nor plugins, ini files, files of arguments or models that the record names."""
    first = recorded(run)
    parent = run.folder if place != "outside" else tmp_path_factory.mktemp("elsewhere")
    record, mark = parent / place, run.folder / "ran.txt"
    first.folder.rename(record)
    # Without an ini file of the user, pytest looks for one near all paths of the command.
    (run.folder / "pytest.ini").unlink()
    evil = EVIL.format(file=str(mark))
    for name in ("test_evil.py", "conftest.py", "evil.py"):
        (record / name).write_text(evil)
    for name in ("pytest.ini", "evil.ini"):
        (record / name).write_text("[pytest]\naddopts = -p evil\npythonpath = .\n")
    (record / "arguments").write_text("-p\nevil\n")
    command = [word.format(record=record) for word in words]
    own = ("--model", run.adder, "--override-ini=llm_retries=0")
    change_command(Finished(0, "", record), *command, *own)
    check_nothing_ran(run, record, mark)
    # Without these files the record is one, and what it names is next to it.
    for name in ("test_evil.py", "conftest.py", "evil.py", "pytest.ini"):
        (record / name).rename(parent / (name if place == "outside" else f"other-{name}"))
    change_command(
        Finished(0, "", record), *(word.replace("evil.py", "../evil.py") for word in command), *own
    )
    check_nothing_ran(run, record, mark)


def check_nothing_ran(run: Runner, record: Path, mark: Path) -> None:
    """Resume the record with code that can be imported from around it, and check that none of it ran."""
    path = f"{record}:{record.parent}:{os.environ.get('PYTHONPATH', '')}"
    done = retry(run, str(record), env={"PYTHONPATH": path})
    assert not mark.exists(), done.output
    assert "Traceback" not in done.output


def test_model_that_is_a_file_of_a_stranger_is_not_loaded(
    run: Runner, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A model may be a Python file, or a repository: it is used if the user names it."""
    run.sums(3)
    file, mark = tmp_path_factory.mktemp("elsewhere") / "model.py", run.folder / "ran.txt"
    file.write_text("def reply(chat):\n    return RuntimeError('overloaded')\n")
    spec = f"fake:call?file={file}"
    first = run("--model", spec, "-o", "llm_retries=0")
    file.write_text(EVIL.format(file=str(mark)) + "def reply(chat):\n    return '1'\n")
    done = retry(run, str(first.folder))
    assert (done.code, mark.exists()) == (4, False), done.output
    assert f"the model {spec} would be loaded; your own settings do not say so" in done.output
    assert f"add '--model={spec}'" in done.output
    retry(run, str(first.folder), f"--model={spec}")
    assert mark.exists()
    change_command(first, "--model", "hf:evil/model")
    assert "the model hf:evil/model would be loaded" in retry(run, str(first.folder)).output


def test_no_key_goes_to_an_address_that_only_the_record_names(run: Runner, stranger: Stranger) -> None:
    """A script is refused with the option to add, which is all that is missing.

    A model or a helper may have an address of its own.
    """
    first = failed_run(run, stranger)
    env, spec = {"OPENAI_API_KEY": KEY}, f"openai:m?base_url={stranger.url}"
    facts = (first.folder / "run.json").read_bytes()
    for words in (("--model", spec), ("--model=m", "--llm-helper", f"reader={spec}"), ()):
        if words:
            change_command(first, *words)
        else:
            (first.folder / "run.json").write_bytes(facts)
        done = retry(run, str(first.folder), env=env)
        assert (done.code, stranger.calls) == (4, []), done.output
        [line] = [line for line in done.output.splitlines() if "ERROR" in line]
        said = f"the key in OPENAI_API_KEY would go to {stranger.url}; your own settings do not say so"
        assert said in line
        assert KEY not in done.output
    assert line.endswith(f"If you want it, add --llm-base-url={stranger.url}")
    again = retry(run, str(first.folder), f"--llm-base-url={stranger.url}", env=env)
    assert len(read_run(first.folder).records) == 3, again.output
    assert {call["authorization"] for call in stranger.calls} == {f"Bearer {KEY}"}, again.output


#: words of a record's command, and what is asked about them
REACHING = [
    (("--llm-header", "x-org=$SECRET_OF_USER"), "$SECRET_OF_USER would be sent as the header x-org"),
    (("--llm-engine", "ray://evil:10001"), "the Ray cluster ray://evil:10001 would be joined"),
    (("--llm-store", "/nosuch/evil.sqlite"), "replies would be kept in /nosuch/evil.sqlite"),
    (("--llm-store", "postgresql://evil/db"), "the password in PGPASSWORD would go to postgresql://evil/db"),
    (
        ("-o", "llm_prices={record}/prices.json"),
        "prices.json would be read, which is in the folder of a record",
    ),
    (("--llm-gate", "{record}/gate.toml"), "gate.toml would be read, which is in the folder of a record"),
    (("--llm-data={record}",), "would be read, which is in the folder of a record"),
    (("--llm-max-cost", "1000"), "the limit would be 1000"),
    (
        ("--llm-model", "litellm:x/y", "--llm-param", "api_base=http://e"),
        "litellm would get api_base=http://e",
    ),
    (("--llm-model", "litellm:x/y", "--llm-param", 'a={"b": ["x.y"]}'), "litellm would get a="),
]


@pytest.mark.parametrize("source", ["environment", "ini"])
def test_address_of_the_users_own_settings_is_used(run: Runner, stranger: Stranger, source: str) -> None:
    """If the ini file or a variable names the address, a run is resumed without a question."""
    first = failed_run(run, stranger)
    env = {"OPENAI_API_KEY": KEY}
    if source == "environment":
        env["OPENAI_BASE_URL"] = stranger.url + "/"
    else:
        run.write("pytest.ini", f"[pytest]\nllm_base_url = {stranger.url}\n")
    done = retry(run, str(first.folder), env=env)
    assert {record.status for record in read_run(first.folder).records} <= {"correct", "wrong"}, done.output


def test_other_reaching_settings_are_asked_about(run: Runner) -> None:
    """Whatever leaves the process, or loads, replaces or overrides something of the user."""
    first = recorded(run)
    run.write("pytest.ini", "[pytest]\nllm_max_cost = 5\n")
    env = {"SECRET_OF_USER": KEY, "PGPASSWORD": "pw", "X_API_KEY": "k"}
    for words, said in REACHING:
        change_command(
            first, "--model", run.adder, *(word.replace("{record}", str(first.folder)) for word in words)
        )
        done = retry(run, str(first.folder), env=env)
        assert done.code == 4, done.output
        [line] = [line for line in done.output.splitlines() if "your own settings do not say so" in line]
        assert said in line
        assert KEY not in done.output


@pytest.mark.parametrize(("answer", "code"), [("y\n", 1), ("n\n", 2)])
def test_a_terminal_is_asked(
    run: Runner, stranger: Stranger, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, the question says which key would go where; only y goes on."""
    first = failed_run(run, stranger)
    monkeypatch.chdir(run.folder)
    words, value = resume_arguments([str(first.folder)])
    question = "llmprops: continue? [y/N]"
    env = {"OPENAI_API_KEY": KEY, FROM_RECORD: value}
    status, shown = answering(run, *words, env=env, question=question, answer=answer)
    assert status == code, shown
    assert f"the key in OPENAI_API_KEY would go to {stranger.url}" in shown
    assert bool(stranger.calls) == (code == 1)


def test_command_is_printed_without_control_characters(run: Runner) -> None:
    """The printed command, and the note on what is left out, cannot write to the terminal."""
    first = recorded(run)
    change_command(first, "--model", run.adder, "-k", "a\x1b[2J", "-p", "b\x1b]0;title\x07")
    done = retry(run, str(first.folder))
    assert "\x1b[2J" not in done.output
    assert "note: not repeated: -p 'b␛]0;title␇'; options that load code or write files" in done.output


def test_offered_commands_are_quoted(run: Runner) -> None:
    """A folder's name is one word of each command that the terminal offers."""
    run.sums(3)
    folder = run.folder / "x; touch ran"
    run.write("adder.py", "import os\ndef reply(chat):\n    os.kill(os.getpid(), 2)\n    return '1'\n")
    done = run("--model", run.adder, "--llm-run", str(folder))
    assert f"complete it: llmprops run --resume '{folder}'" in " ".join(done.output.split())
    assert f" '{folder}'" in next_command(folder)
