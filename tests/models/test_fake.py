"""The public fake model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Completion, Likelihood, Reply, Translate
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.fake import BACKEND, FakeModel
from pytest_llmprops.models.registry import parse_spec
from tests.support.backends import error, fatal, make, refuse, reply, texts


def ask(model: FakeModel, *prompts: str, sample: int = 0) -> list[Result]:
    """Return the results for single user messages, one after the other."""

    async def calls() -> list[Result]:
        return [(await model.chat([Chat.user(p, sample=sample)]))[0] for p in prompts]

    return asyncio.run(calls())


def test_list_is_used_up_in_order_and_fails_loudly() -> None:
    """Replies are used in order, and requests are kept; the call after the last is a fatal error with the number."""
    model = FakeModel(["A", "B"])
    first, second, third = ask(model, "1", "2", "3")
    assert texts([first, second]) == ["A", "B"]
    assert str(fatal(third)) == "the fake model ran out of replies after 2"
    assert fatal(third).kind == "fake"
    assert [r.prompt for r in model.requests] == ["1", "2", "3"]


def test_first_rule_that_matches_the_last_turn_wins() -> None:
    """Rules match the last turn only, in order; a prompt without a rule is a fatal error."""
    model = FakeModel({"cat": "A", "cat|dog": "B"})
    assert texts(ask(model, "a cat", "a dog")) == ["A", "B"]
    chat = Chat.user("a cat").then("A", "a cow")
    [result] = asyncio.run(model.chat([chat]))
    fatal(result, "no rule for: a cow")


def test_function_may_give_text_reply_or_exception() -> None:
    """A function, plain or ``async``, may return a text, a reply or a backend error; each arrives as such."""
    outcomes: list[str | Reply | Exception] = [
        "A",
        Reply("B", finish_reason="length"),
        BackendError("down", kind="status 500", transient=True),
        ValueError("odd\nline"),
    ]

    async def later(chat: Chat) -> str:
        await asyncio.sleep(0)
        return chat.prompt.upper()

    def broken(chat: Chat) -> str:
        raise KeyError("x")

    text, whole, down, odd = ask(FakeModel(lambda chat: outcomes[int(chat.prompt)]), "0", "1", "2", "3")
    assert texts([text, whole, *ask(FakeModel(later), "a")]) == ["A", "B", "A"]
    assert reply(whole).finish_reason == "length"
    assert error(down).transient
    assert str(error(odd)) == "ValueError: odd line"
    assert not error(odd).fatal
    assert str(fatal(ask(FakeModel(broken), "a")[0])) == "the fake model's function raised KeyError: 'x'"


def test_replies_are_part_of_the_identity() -> None:
    """Fakes with different replies have different identities, so their stored replies are never mixed."""
    assert FakeModel(["A"]).identity != FakeModel(["B"]).identity
    assert FakeModel(["A"]).identity == FakeModel(["A"]).identity
    for one, other in (("constant?text=A", "constant?text=B"), ("random?seed=1", "random?seed=2")):
        assert make(f"fake:{one}").identity != make(f"fake:{other}").identity
        assert make(f"fake:{one}").identity == make(f"fake:{one}").identity


def test_fake_translates() -> None:
    """A fake translation system is asked with the sentence, and fails on purpose like other fakes."""
    assert BACKEND.kinds(parse_spec("fake:echo?kinds=translate")) == {"translate"}
    sentence = Translate("Rain fell.", "en", "af")
    for fake, text in (
        ("echo", "Rain fell."),
        ("constant?text=Dit", "Dit"),
        ("random?choices=A&seed=2", "A"),
    ):
        assert texts(asyncio.run(make(f"fake:{fake}").translate([sentence]))) == [text]
    (first,) = asyncio.run(make("fake:echo?fail=1").translate([sentence]))
    assert error(first).transient


def test_random_follows_from_prompt_and_sample() -> None:
    """Random replies repeat for the same prompt and sample, differ between prompts, and use every choice."""
    prompts = [f"q{i}" for i in range(60)]
    first = texts(ask(make("fake:random?choices=A,B,C&seed=3"), *prompts))
    assert first == texts(ask(make("fake:random?choices=A,B,C&seed=3"), *prompts))
    assert set(first) == {"A", "B", "C"}
    assert first != texts(ask(make("fake:random?choices=A,B,C&seed=3"), *prompts, sample=1))


@pytest.mark.parametrize(
    ("spec", "content", "first", "second"),
    [
        ("fake:list?file=FILE", "A\nB\n", ("A", "stop"), ("B", "stop")),
        (
            "fake:list?file=FILE", '[{"text": "C", "finish_reason": "length"}, {"error": "down", "transient": true}]',
            ("C", "length"), ("down", True),
        ),
        (
            "fake:rule?file=FILE", '[{"match": "^a", "reply": "A"}, {"match": "", "reply": "B"}]',
            ("A", "stop"), ("B", "stop"),
        ),
        (
            "fake:call?file=FILE&function=shout", "def shout(chat):\n    return chat.prompt.upper()\n",
            ("ABC", "stop"), ("XYZ", "stop"),
        ),
    ],
)  # fmt: skip
def test_replies_of_a_file(spec: str, content: str, first: object, second: object, tmp_path: Path) -> None:
    """A file has one reply per line, a JSON list of replies, errors or rules, or a function; it is in the identity."""
    file = tmp_path / "file"
    file.write_text(content, encoding="utf-8")
    model = make(spec.replace("FILE", str(file)))
    results = ask(model, "abc", "xyz")
    seen = [(r.text, r.finish_reason) if isinstance(r, Reply) else (r.message, r.transient) for r in results]
    assert seen == [first, second]
    file.write_text(content.replace("A", "D").replace("upper", "lower").replace("C", "E"), encoding="utf-8")
    assert make(spec.replace("FILE", str(file))).identity != model.identity


def test_requested_failures_succeed_at_the_second_attempt() -> None:
    """With ``fail=1`` the first call for a prompt is a transient error and the next one a reply."""
    first, second = ask(make("fake:constant?fail=1"), "a", "a")
    assert error(first).transient
    assert texts([second]) == ["A"]


@pytest.mark.parametrize(
    ("spec", "content", "said"),
    [
        ("nonsense", "", "unknown fake model 'nonsense'"),
        ("list", "", "add file=PATH"),
        ("list?file=/no/such/file", "", "cannot read /no/such/file: No such file"),
        ("echo?delay=soon", "", "delay must be a number"),
        ("echo?price_in=1", "", "give price_in and price_out"),
        ("rule?file=FILE", "{", "is not JSON"),
        ("rule?file=FILE", '[{"match": "(", "reply": "A"}]', "is not a regular expression"),
        ("rule?file=FILE", '[{"reply": "A"}]', "rule 1: write"),
        ("list?file=FILE", "[1]", "entry 1: not a reply; write a text"),
        ("call?file=FILE", "x = 1", "has no function 'reply'"),
    ],
)
def test_what_cannot_be_used_gives_one_line(spec: str, content: str, said: str, tmp_path: Path) -> None:
    """A wrong name, parameter or file is a one-line UsageError that names it."""
    (tmp_path / "file").write_text(content)
    refuse(f"fake:{spec.replace('FILE', str(tmp_path / 'file'))}", said)


def test_fake_base_model() -> None:
    """As a base model, the fake continues texts, and its reply is the most likely option."""
    model = FakeModel(lambda request: "B" if "why" in request.prompt else "A")
    [text] = asyncio.run(model.completion([Completion("why", max_tokens=1)]))
    first, second = asyncio.run(
        model.likelihood([Likelihood("why", (" A", " B")), Likelihood("how", ("A", "B"))])
    )
    assert texts([text]) == ["B"]
    replies = [reply for reply in (first, second) if isinstance(reply, Reply)]
    chances = [[option["logprob"] for option in reply.value["options"]] for reply in replies]
    assert chances[0] == chances[1][::-1]
    assert chances[0][1] > chances[0][0]
