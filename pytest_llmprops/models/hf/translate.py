"""Translation with a sequence-to-sequence model of the transformers library.

The language codes are those of the tokenizers' language tokens. NLLB uses the codes of FLORES-200 (NLLB team 2022,
table 1), mBART-50 those of Tang et al. 2020, table 1. M2M100 (Fan et al. 2020) and MADLAD-400 (Kudugunta et al. 2023)
use two-letter codes with few exceptions. OPUS-MT's Marian models use two- or three-letter codes, of the language
(``lvs``) or of its macrolanguage (``lav``), some with a script.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply, Translate, Usage
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf.loading import HfModel, tokenized


@dataclass(frozen=True, slots=True)
class Family:
    """How a family of models marks languages.

    :param model_types: values of ``model_type`` in ``config.json``.
    :param template: a language's token, with ``{}`` for its code.
    :param pattern: regular expression that matches a language's whole token.
    :param names_source: whether the model gets the source language as well as the target language.
    """

    name: str
    model_types: tuple[str, ...]
    template: str
    pattern: str
    names_source: bool

    def token(self, code: str) -> str:
        """Return the vocabulary's token for a language's code."""
        return self.template.format(code)


NLLB = Family("NLLB", ("m2m_100", "nllb-moe"), "{}", r"[a-z]{3}_[A-Z][a-z]{3}", True)
M2M100 = Family("M2M100", ("m2m_100",), "__{}__", r"__[a-z]{2,3}__", True)
MBART50 = Family("mBART-50", ("mbart",), "{}", r"[a-z]{2}_[A-Z]{2}", True)
MADLAD = Family("MADLAD-400", ("t5", "mt5", "umt5"), "<2{}>", r"<2[a-z]{2,3}(_\w+)?>", False)
MARIAN = Family("Marian", ("marian",), ">>{}<<", r">>[\w-]+<<", False)
FAMILIES = (NLLB, M2M100, MBART50, MADLAD, MARIAN)

# columns: two-letter code, NLLB, mBART-50, other three-letter codes that Marian models use
_TABLE = """
af afr_Latn af_ZA
ar arb_Arab ar_AR ara
az azj_Latn az_AZ aze
be bel_Cyrl -
bg bul_Cyrl -
bn ben_Beng bn_IN
bs bos_Latn -
ca cat_Latn -
cs ces_Latn cs_CZ
cy cym_Latn -
da dan_Latn -
de deu_Latn de_DE
el ell_Grek -
en eng_Latn en_XX
es spa_Latn es_XX
et est_Latn et_EE ekk
eu eus_Latn -
fa pes_Arab fa_IR fas
fi fin_Latn fi_FI
fr fra_Latn fr_XX
ga gle_Latn -
gl glg_Latn gl_ES
gu guj_Gujr gu_IN
he heb_Hebr he_IL
hi hin_Deva hi_IN
hr hrv_Latn hr_HR
hu hun_Latn -
hy hye_Armn -
id ind_Latn id_ID
is isl_Latn -
it ita_Latn it_IT
ja jpn_Jpan ja_XX jap
ka kat_Geor ka_GE
kk kaz_Cyrl kk_KZ
km khm_Khmr km_KH
ko kor_Hang ko_KR
lt lit_Latn lt_LT
lv lvs_Latn lv_LV lav
mk mkd_Cyrl mk_MK
ml mal_Mlym ml_IN
mn khk_Cyrl mn_MN mon
mr mar_Deva mr_IN
ms zsm_Latn - msa
mt mlt_Latn -
my mya_Mymr my_MM
nb nob_Latn -
ne npi_Deva ne_NP nep
nl nld_Latn nl_XX
nn nno_Latn -
no nob_Latn - nor
pl pol_Latn pl_PL
ps pbt_Arab ps_AF pus
pt por_Latn pt_XX
ro ron_Latn ro_RO
ru rus_Cyrl ru_RU
si sin_Sinh si_LK
sk slk_Latn -
sl slv_Latn sl_SI
sq als_Latn - sqi
sr srp_Cyrl -
sv swe_Latn sv_SE
sw swh_Latn sw_KE swa
ta tam_Taml ta_IN
te tel_Telu te_IN
th tha_Thai th_TH
tl tgl_Latn tl_XX
tr tur_Latn tr_TR
uk ukr_Cyrl uk_UA
ur urd_Arab ur_PK
vi vie_Latn vi_VN
xh xho_Latn xh_ZA
zh zho_Hans zh_CN cmn
"""
_ROWS: Mapping[str, tuple[str, ...]] = {
    row[0]: tuple(row[1:]) for row in map(str.split, _TABLE.strip().splitlines())
}
LANGUAGES = tuple(_ROWS)
_M2M100_EXCEPTIONS = {"nb": "no"}
_MADLAD_EXCEPTIONS = {"nb": "no", "tl": "fil"}


def codes_of(family: Family, language: str) -> tuple[str, ...]:
    """Return the codes that models of ``family`` may use for ``language`` (two letters), best first.

    A language that is not in the table keeps its two-letter code in the families with two-letter codes. In the other
    families the result is empty.
    """
    if family is M2M100:
        return (_M2M100_EXCEPTIONS.get(language, language),)
    if family is MADLAD:
        return (_MADLAD_EXCEPTIONS.get(language, language),)
    if family is MARIAN:
        return _marian_codes(language)
    row = _ROWS.get(language)
    code = row[0 if family is NLLB else 1] if row else "-"
    return () if code == "-" else (code,)


def _marian_codes(language: str) -> tuple[str, ...]:
    row = _ROWS.get(language)
    if row is None:
        return (language,)
    three, _, script = row[0].partition("_")
    names = (three, *row[2:])
    return (language, *names, *(f"{name}_{script}" for name in names))


@cache
def language_of(code: str) -> str | None:
    """Return the two-letter code for ``code`` of a Marian model's settings; None for language groups and others.

    ``no`` and ``nb`` are the same language here, Norwegian Bokmål.
    """
    for language in _ROWS:
        if code.lower() in (name.lower() for name in _marian_codes(language)):
            return "no" if language == "nb" else language
    return None


#: Default limit of new tokens per translation. An assumption: the DTAiLS paper does not state one; its
#: sentences have fewer than 50 tokens.
MAX_NEW_TOKENS = 256


class _Row(NamedTuple):
    """A text to translate: its tokens, and the token that its translation must start with."""

    ids: list[int]
    first: int | None


class HfTranslateModel(HfModel):
    """An NLLB, M2M100, mBART-50, MADLAD-400 or Marian model.

    The languages are passed as each model card requires. The family follows from the model's type and from
    the language tokens in its vocabulary:

    - NLLB, M2M100, mBART-50: the source language's token is set on the tokenizer; the target language's
      token is forced as the first generated token.
    - MADLAD-400: ``<2xx>`` of the target language is put before the text.
    - Marian: ``>>xxx<<`` of the target language is put before the text if the vocabulary has such tokens.
      Otherwise the tokenizer's language pair must be the requested one.

    Decoding is greedy or uses a beam; nothing is sampled. A batch holds texts of similar length. A translation
    does not depend on its batch, except for rounding.

    :param beams: Width of the beam; 1 is greedy decoding.
    :param max_new_tokens: Maximum length of a translation, including the language token. A translation cut
        there has the ``finish_reason`` "length".
    :param source_code: The model's own code of the source language, instead of the built-in one.
    :param target_code: The same for the target language.
    """

    def __init__(
        self,
        load: Callable[[], tuple[Any, Any]],
        *,
        beams: int,
        max_new_tokens: int,
        source_code: str | None,
        target_code: str | None,
        **settings: Any,
    ) -> None:
        super().__init__(load, **settings)
        self.max_batch = 4 * self._batch
        self._beams, self._most = beams, max_new_tokens
        self._source_code, self._target_code = source_code, target_code
        self._family = MARIAN
        #: language token -> its id in the vocabulary
        self._languages: Mapping[str, int] = {}

    def translate(self, requests: Sequence[Translate]) -> Sequence[Result]:
        """Return one result per request, in order; ``Reply.text`` is the translation."""
        return self._served(requests, self._row, self._translated)

    def _loaded(self) -> bool:
        if not super()._loaded():
            return False
        # The tokenizer of M2M100 does not list the language tokens in its vocabulary.
        vocabulary = self.tokenizer.get_vocab() | getattr(self.tokenizer, "lang_token_to_id", {})
        model_type = str(getattr(self.network.config, "model_type", ""))
        for family in FAMILIES:
            if model_type in family.model_types:
                languages = {t: i for t, i in vocabulary.items() if re.fullmatch(family.pattern, t)}
                if languages or family is MARIAN:
                    self._family, self._languages = family, languages
                    return True
        self.network = self.tokenizer = None
        raise self._error(
            f"not a supported translation model (its type is {model_type!r}, and its vocabulary"
            f" has no language tokens). Supported: {', '.join(family.name for family in FAMILIES)}",
            kind="model",
            fatal=True,
        )

    def _row(self, request: Translate) -> _Row:
        if not request.text.strip():
            raise self._error("the text is empty")
        if self._family.names_source:
            source = self._code("source", request.source, self._source_code)
            target = self._code("target", request.target, self._target_code)
            self.tokenizer.src_lang = source
            ids = self.encoded(request.text)
            number = self._languages[self._family.token(source)]
            # Older NLLB tokenizers put it after the text. mBART-25 does too, but is started differently.
            places = ids[:1] if self._family is MBART50 else [ids[0], ids[-1]]
            if number not in places:
                raise self._unusable(
                    f"its tokenizer does not put the source language {source} in front of a text"
                )
            first: int | None = self._languages[self._family.token(target)]
        else:
            if self._source_code is not None:
                raise self._unusable(
                    f"{self._family.name} models take no source language: remove source_code="
                )
            tag = self._tag(request)
            ids = self.encoded(f"{tag} {request.text}" if tag else request.text)
            if tag and self._languages[tag] not in ids:
                raise self._unusable(f"its tokenizer does not read {tag} as one token")
            first = None
        self._check_length(len(ids))
        return _Row(ids, first)

    def _tag(self, request: Translate) -> str:
        """Return the tag put before a text; empty for a Marian model of a single pair."""
        if self._family is MARIAN and self._target_code is None and not self._needs_tag(request):
            return ""
        return self._family.token(self._code("target", request.target, self._target_code))

    def _needs_tag(self, request: Translate) -> bool:
        """Return True if a Marian model needs a tag for the target language."""
        # Language groups (mul, gmw) and unknown codes do not restrict the pair.
        source, target = (
            language_of(str(getattr(self.tokenizer, name, None) or ""))
            for name in ("source_lang", "target_lang")
        )
        same = target is not None and target == language_of(request.target)
        if source not in (None, language_of(request.source)) or not (
            self._languages or target is None or same
        ):
            raise self._unusable(
                f"it translates from {source or 'any language'} to {target or 'those of its tags'},"
                f" not from {request.source} to {request.target}"
            )
        # A model with one target language may have tags only for its scripts or dialects.
        tags = map(MARIAN.token, codes_of(MARIAN, request.target))
        return bool(self._languages) and (not same or any(tag in self._languages for tag in tags))

    def _code(self, side: str, language: str, stated: str | None) -> str:
        """Return the model's own code of a language whose token is in the vocabulary.

        :param side: "source" or "target".
        :raises BackendError: if the model does not have the language.
        """
        codes = (stated,) if stated is not None else codes_of(self._family, language)
        for code in codes:
            if self._family.token(code) in self._languages:
                return code
        tokens = " or ".join(map(self._family.token, codes)) or "no code is known for it"
        raise self._unusable(
            f"this {self._family.name} model does not have the {side} language {language!r} ({tokens});"
            f" choose one of its {len(self._languages)} with {side}_code=CODE"
        )

    def _unusable(self, why: str) -> BackendError:
        return self._error(why, kind="model", fatal=True)

    def encoded(self, text: str) -> list[int]:
        """Return the tokens of a text, not cut to the model's length."""
        return [int(i) for i in tokenized(self.tokenizer, text, self._name, truncation=False)["input_ids"]]

    def _translated(self, rows: Sequence[_Row]) -> list[Result]:
        results: dict[int, Result] = {}
        # All texts of a batch share one forced first token.
        for first in dict.fromkeys(row.first for row in rows):
            places = [place for place, row in enumerate(rows) if row.first == first]
            group = [rows[place] for place in places]
            replies = self._in_batches([len(row.ids) for row in group], partial(self._batch_of, group))
            results.update(zip(places, replies, strict=True))
        return [results[place] for place in range(len(rows))]

    def _batch_of(self, rows: Sequence[_Row], indices: list[int]) -> list[Reply]:
        return self.generate([rows[i] for i in indices])

    def generate(self, rows: Sequence[_Row]) -> list[Reply]:
        """Translate one batch; the replies follow ``rows``."""
        padded = self.tokenizer.pad({"input_ids": [row.ids for row in rows]}, return_tensors="pt")
        config = self.network.config
        positions = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)
        lines = self.network.generate(
            **padded.to(self.network.device),
            **({} if rows[0].first is None else {"forced_bos_token_id": rows[0].first}),
            num_beams=self._beams,
            do_sample=False,
            max_length=None,
            max_new_tokens=min(self._most, positions - 1),
            # With a forced end token, a truncated translation would look complete.
            forced_eos_token_id=None,
            stopping_criteria=[self.stop_when_closed],
        ).tolist()
        ends = self._ends()
        return [self._reply(line, row, ends) for line, row in zip(lines, rows, strict=True)]

    def _reply(self, line: list[int], row: _Row, ends: frozenset[int]) -> Reply:
        # The first token is the decoder's start token, which is often the end token itself.
        new = line[1:]
        end = next((i for i, token in enumerate(new) if token in ends), None)
        new = new[:end]
        if row.first is not None and new[:1] == [row.first]:
            new = new[1:]
        text = str(self.tokenizer.decode(new, skip_special_tokens=True))
        # Drop a character whose last bytes were cut off by the limit.
        return Reply(
            text.rstrip("\ufffd").strip(),
            finish_reason="length" if end is None else "stop",
            usage=Usage(len(row.ids), len(new)),
        )

    def stop_when_closed(self, ids: Any, scores: Any, **more: Any) -> Any:
        """Stop generating when the model is closed; the library calls this after every token."""
        self._check_open()
        torch: Any = importlib.import_module("torch")
        return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
