"""Translation models through ``hf:``: each family's language codes, batches, limits, invalid input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Translate
from pytest_llmprops.models.hf import translate
from pytest_llmprops.models.hf.translate import FAMILIES, MADLAD, MARIAN, MBART50, NLLB, codes_of, language_of
from tests.support import translation_models as tiny
from tests.support.backends import LIBRARIES, error, fatal, make, needs, reply, texts

pytestmark = [LIBRARIES, needs("torch", "transformers", "sentencepiece", "sacremoses", extra="hf")]
SAVE: dict[str, Callable[[Path], Path]] = {
    "nllb": tiny.save_nllb,
    "m2m100": tiny.save_m2m100,
    "mbart50": tiny.save_mbart50,
    "madlad": tiny.save_madlad,
    "marian": lambda folder: tiny.save_marian(folder, tags=("afr", "pes", "hye")),
}
#: families that force the target's token, and their codes for Afrikaans and Farsi
FORCED = {
    "nllb": ("eng_Latn", "afr_Latn", "pes_Arab"),
    "m2m100": ("__en__", "__af__", "__fa__"),
    "mbart50": ("en_XX", "af_ZA", "fa_IR"),
}
TAGGED = {"madlad": ("<2af>", "<2fa>"), "marian": (">>afr<<", ">>pes<<")}


def asked(target: str = "af", source: str = "en", texts: tuple[str, ...] = tiny.TEXTS) -> list[Translate]:
    return [Translate(text, source, target) for text in texts]


def one(model: Any, text: str = "Home", source: str = "en", target: str = "af") -> Any:
    return model.translate([Translate(text, source, target)])[0]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Use one thread, because steps this small lose time when threads wait for each other."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Save a model of each family."""
    pytest.importorskip("transformers")
    return {name: save(tmp_path_factory.mktemp(name)) for name, save in SAVE.items()}


@pytest.fixture(scope="module")
def nllb(folders: dict[str, Path]) -> Any:
    return make(f"hf:{folders['nllb']}?max_new_tokens=12&device=cpu")


class Spy:
    """Records the arguments of the library's generate."""

    def __init__(self, model: Any, patch: pytest.MonkeyPatch) -> None:
        self.settings: list[dict[str, Any]] = []
        one(model)
        self.tokenizer = model.tokenizer
        original = model.network.generate

        def generate(**settings: Any) -> Any:
            self.settings.append(settings)
            return original(**settings)

        patch.setattr(model.network, "generate", generate)

    def number(self, token: str) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(token))


def test_language_codes_before_the_text(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The target's tag precedes every text as one token, and no token is forced."""
    model = make(f"hf:{folders['madlad']}?max_new_tokens=4")
    spy = Spy(model, monkeypatch)
    afrikaans, farsi = map(spy.number, TAGGED["madlad"])
    assert texts(model.translate([*asked("af")[:3], *asked("fa")[:2]]))
    rows = [row for settings in spy.settings for row in settings["input_ids"].tolist()]
    # T5's tokenizer writes an empty word before the tag.
    assert (
        sorted(next(t for t in row if t in (afrikaans, farsi)) for row in rows)
        == [afrikaans] * 3 + [farsi] * 2
    )
    assert all({row.index(t) for t in (afrikaans, farsi) if t in row} <= {0, 1} for row in rows)
    assert not any("forced_bos_token_id" in settings for settings in spy.settings)


def alone(name: str, folder: Path, *targets: str, beams: int = 1) -> list[str]:
    """Return each text's translation by the library, one at a time, as in the family's model card.

    :param targets: the codes of the texts' languages, in turn.
    """
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    translations = []
    for text, target in zip(tiny.TEXTS, cycle(targets), strict=False):
        token = tokenizer.convert_tokens_to_ids(target)
        assert token != tokenizer.unk_token_id
        more: dict[str, Any] = {}
        if name in FORCED:
            tokenizer.src_lang = FORCED[name][0].strip("_")
            more["forced_bos_token_id"] = token
        else:
            text = f"{target} {text}"
        settings = {"num_beams": beams, "max_new_tokens": 12, "max_length": None, "forced_eos_token_id": None}
        out = model.generate(**tokenizer(text, return_tensors="pt"), do_sample=False, **settings, **more)
        translations.append(tokenizer.decode(out[0], skip_special_tokens=True).strip())
    return translations


@pytest.mark.parametrize("name", SAVE)
def test_batches_equal_single_texts(name: str, folders: dict[str, Path]) -> None:
    """Texts of two target languages have the library's translation of each text alone, in order."""
    targets = FORCED[name][1:] if name in FORCED else TAGGED[name]
    expected = alone(name, folders[name], *targets)
    assert len(set(expected)) > 4
    # The tag does not change a translation of the random T5: see the test above.
    assert name == "madlad" or expected != alone(name, folders[name], *targets[::-1])
    model = make(f"hf:{folders[name]}?max_new_tokens=12&batch=8&device=cpu")
    requests = [Translate(text, "en", ("af", "fa")[n % 2]) for n, text in enumerate(tiny.TEXTS)]
    translations = texts(model.translate(requests))
    # M2M100's tokenizer does not treat language tokens as special, so the library keeps the first one.
    kept = [text.removeprefix("__af__").removeprefix("__fa__").strip() for text in expected]
    assert kept == translations
    assert translations[::-1] == texts(model.translate(requests[::-1]))
    assert translations == [texts(model.translate([request]))[0] for request in requests]


def test_reply_fields(nllb: Any, folders: dict[str, Path]) -> None:
    """A reply says whether the translation ended or was cut, and has its tokens and served model."""
    results = nllb.translate(asked())
    assert {result.finish_reason for result in results} == {"stop", "length"}
    for result in results:
        # The language's token is one of the twelve.
        assert (result.usage.completion_tokens == 11) == (result.finish_reason == "length")
        assert result.served_model == folders["nllb"].name
    assert len({result.usage.prompt_tokens for result in results}) > 4


def test_forced_end_still_counts_as_cut(tmp_path: Path) -> None:
    """Marian's published settings force an end at the limit; such a translation still counts as cut."""
    replies = make(f"hf:{tiny.save_marian(tmp_path)}?max_new_tokens=5").translate(asked())
    assert {reply.finish_reason for reply in replies} == {"length"}
    assert {reply.usage.completion_tokens for reply in replies} == {5}


def test_beams(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's own beam setting is ignored; a requested beam is used and changes the identity."""
    plain = make(f"hf:{folders['nllb']}?max_new_tokens=12")
    beam = make(f"hf:{folders['nllb']}?max_new_tokens=12&beams=3")
    assert (plain.identity["beams"], beam.identity["beams"]) == (1, 3)
    translations = texts(beam.translate(asked()))
    assert alone("nllb", folders["nllb"], "afr_Latn", beams=3) == translations
    assert translations != texts(plain.translate(asked()))
    spy = Spy(plain, monkeypatch)
    one(plain)
    assert [(g["num_beams"], g["do_sample"]) for g in spy.settings] == [(1, False)]


@pytest.mark.parametrize(
    ("name", "source", "target", "words"),
    [
        ("m2m100", "en", "te", "M2M100 model does not have the target language 'te' (__te__)"),
        ("marian", "en", "ta", "target language 'ta' (>>ta<< or >>tam<< or >>tam_Taml<<)"),
        ("nllb", "en", "xx", "target language 'xx' (no code is known for it)"),
        ("nllb", "xx", "af", "source language 'xx'"),
    ],
)
def test_language_that_a_model_does_not_have(
    name: str, source: str, target: str, words: str, folders: dict[str, Path]
) -> None:
    """One line names the language, the code that was not found and its parameter, and stops the run."""
    result = one(make(f"hf:{folders[name]}"), "Home", source, target)
    parameter = "target_code=" if source == "en" else "source_code="
    assert fatal(result, words, parameter).kind == "model"


def test_stated_codes(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes stated by the user reach the model and its identity; a wrong one is named."""
    model = make(f"hf:{folders['nllb']}?source_code=nld_Latn&target_code=zho_Hant&max_new_tokens=3")
    assert (model.identity["source_code"], model.identity["target_code"]) == ("nld_Latn", "zho_Hant")
    spy = Spy(model, monkeypatch)
    assert reply(one(model, source="xx", target="zh"))
    assert spy.settings[0]["forced_bos_token_id"] == spy.number("zho_Hant")
    assert spy.settings[0]["input_ids"].tolist()[0][0] == spy.number("nld_Latn")
    assert "xyz_Latn" in one(make(f"hf:{folders['nllb']}?target_code=xyz_Latn")).message
    tagged = make(f"hf:{folders['marian']}?target_code=hye&max_new_tokens=3")
    spy = Spy(tagged, monkeypatch)
    assert reply(one(tagged, target="xx"))
    assert spy.settings[0]["input_ids"].tolist()[0][0] == spy.number(">>hye<<")
    for name in TAGGED:
        fatal(one(make(f"hf:{folders[name]}?source_code=en")), "remove source_code=")


@pytest.mark.parametrize(
    ("settings", "pair", "says"),
    [
        ({"target": "af"}, ("en", "af"), ""),
        ({"source": "mul", "target": "gmw"}, ("nl", "af"), ""),
        ({"target": "de"}, ("en", "af"), "from en to de, not from en to af"),
        ({"source": "de", "target": "gmw", "tags": ("afr",)}, ("en", "af"), "from de to those of its tags"),
        ({"target": "ja", "tags": ("jpn_Hira", "jpn_Kana")}, ("en", "ja"), ""),
    ],
)
def test_pair_of_a_marian_model(
    settings: Any, pair: tuple[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of one pair gets the plain text, and refuses any other stated pair."""
    model = make(f"hf:{tiny.save_marian(tmp_path, **settings)}?max_new_tokens=3")
    if says:
        fatal(one(model, "Tea?", *pair), says)
        return
    one(model, "Home", *pair)
    encoded: list[str] = []
    original = model.encoded

    def recorded(text: str) -> Any:
        encoded.append(text)
        return original(text)

    monkeypatch.setattr(model, "encoded", recorded)
    assert reply(one(model, "Tea?", *pair))
    assert encoded == ["Tea?"]


def test_bad_texts_do_not_affect_the_others(nllb: Any) -> None:
    """An empty text and an overlong one are errors; a text is never cut."""
    long = "tea " * 40
    empty, good, cut = nllb.translate(asked(texts=(" \n", "Home", long)))
    for result, said in ((empty, "empty"), (cut, "the model takes 64")):
        assert (error(result, said).kind, result.fatal) == ("request", False)
    assert good.text == one(nllb).text


def test_out_of_memory_halves_the_batch(nllb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that does not fit is halved, and so are later ones; a text that does not fit alone is an error."""
    import torch

    expected = texts(nllb.translate(asked()))
    original = nllb.generate
    sizes: list[int] = []
    worst: list[int] = []

    def generate(rows: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > 2 or any(row.ids == worst for row in rows):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(rows)

    monkeypatch.setattr(nllb, "generate", generate)
    assert expected == texts(nllb.translate(asked()))
    assert sizes == [8, 4, 2, 2, 2, 2]
    worst = nllb.encoded(asked()[3].text)
    results = nllb.translate(asked())
    assert [i for i, result in enumerate(results) if isinstance(result, BackendError)] == [3]
    error(results[3], "out of memory for one text")


def test_model_that_fails(nllb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of the library is a one-line error of each text."""

    def generate(**settings: Any) -> Any:
        raise IndexError("index out of\nrange")

    monkeypatch.setattr(nllb.network, "generate", generate)
    results = nllb.translate(asked())
    assert len([error(result, ": the model fails: index out of range") for result in results]) == 8


def test_closing_stops_a_translation(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A model closed during a translation stops at the next token and returns errors afterwards."""
    model = make(f"hf:{folders['nllb']}?max_new_tokens=50")
    one(model)
    steps: list[int] = []
    original = model.stop_when_closed

    def step(ids: Any, scores: Any, **more: Any) -> Any:
        steps.append(ids.shape[1])
        model.is_closed = len(steps) == 3
        return original(ids, scores, **more)

    monkeypatch.setattr(model, "stop_when_closed", step)
    assert {error(result).kind for result in model.translate(asked())} == {"closed"}
    assert len(steps) == 3
    model.close()
    assert one(model).kind == "closed"


def test_model_without_language_tokens(tmp_path: Path) -> None:
    """A T5 without language tags is not accepted as a multilingual translation model."""
    result = one(make(f"hf:{tiny.save_madlad(tmp_path, languages=())}"))
    fatal(result, "type is 't5'", "NLLB, M2M100, mBART-50, MADLAD-400, Marian")


def test_codes_of_the_nine_languages() -> None:
    """The codes of the DTAiLS languages in every family are those of the model cards."""
    nine = ["af", "gl", "hy", "fa", "hi", "ja", "lv", "ta", "te"]
    assert [codes_of(NLLB, x)[0] for x in nine] == [
        "afr_Latn", "glg_Latn", "hye_Armn", "pes_Arab", "hin_Deva", "jpn_Jpan", "lvs_Latn", "tam_Taml", "tel_Telu"
    ]  # fmt: skip
    assert [codes_of(MBART50, x)[:1] for x in nine] == [
        ("af_ZA",), ("gl_ES",), (), ("fa_IR",), ("hi_IN",), ("ja_XX",), ("lv_LV",), ("ta_IN",), ("te_IN",)
    ]  # fmt: skip
    assert [MADLAD.token(codes_of(MADLAD, x)[0]) for x in nine] == [f"<2{x}>" for x in nine]
    assert codes_of(MARIAN, "fa") == ("fa", "pes", "fas", "pes_Arab", "fas_Arab")
    assert codes_of(MADLAD, "tl") == ("fil",)


def test_codes_are_those_of_the_tokenizers() -> None:
    """Every NLLB and mBART-50 code is in the library's lists, and none occurs twice except for Norwegian."""
    from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART_CODES
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB_CODES

    for family, known in ((NLLB, NLLB_CODES), (MBART50, MBART_CODES)):
        codes = [code for x in translate.LANGUAGES if x != "no" for code in codes_of(family, x)]
        assert set(codes) <= set(known)
        assert len(codes) == len(set(codes))
    assert {code for x in translate.LANGUAGES for code in codes_of(MBART50, x)} == set(MBART_CODES)


def test_languages_that_a_model_states() -> None:
    """Codes of two and three letters name a language; groups and unknown codes do not."""
    stated = ["en", "eng", "lav", "lvs", "jap", "cmn_Hans", "nob", "mul", "gmw", "", "None"]
    assert [language_of(code) for code in stated] == [
        "en", "en", "lv", "lv", "ja", "zh", "no", None, None, None, None
    ]  # fmt: skip
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
