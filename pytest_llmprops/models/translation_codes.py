"""The language codes of the families of translation models, for two-letter codes (ISO 639-1).

Source: the language tokens in the tokenizers. NLLB uses the codes of FLORES-200 (NLLB team 2022, table 1), mBART-50
those of Tang et al. 2020, table 1. M2M100 (Fan et al. 2020) and MADLAD-400 (Kudugunta et al. 2023) use two-letter codes
with few exceptions. OPUS-MT's Marian models use two- or three-letter codes, of the language (``lvs``) or of its
macrolanguage (``lav``), some with a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


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
ak aka_Latn -
am amh_Ethi -
ar arb_Arab ar_AR ara
as asm_Beng -
ay ayr_Latn - aym
az azj_Latn az_AZ aze
ba bak_Cyrl -
be bel_Cyrl -
bg bul_Cyrl -
bm bam_Latn -
bn ben_Beng bn_IN
bo bod_Tibt -
bs bos_Latn -
ca cat_Latn -
cs ces_Latn cs_CZ
cy cym_Latn -
da dan_Latn -
de deu_Latn de_DE
dz dzo_Tibt -
ee ewe_Latn -
el ell_Grek -
en eng_Latn en_XX
eo epo_Latn -
es spa_Latn es_XX
et est_Latn et_EE ekk
eu eus_Latn -
fa pes_Arab fa_IR fas
ff fuv_Latn - ful
fi fin_Latn fi_FI
fj fij_Latn -
fo fao_Latn -
fr fra_Latn fr_XX
ga gle_Latn -
gd gla_Latn -
gl glg_Latn gl_ES
gn grn_Latn -
gu guj_Gujr gu_IN
ha hau_Latn -
he heb_Hebr he_IL
hi hin_Deva hi_IN
hr hrv_Latn hr_HR
ht hat_Latn -
hu hun_Latn -
hy hye_Armn -
id ind_Latn id_ID
ig ibo_Latn -
is isl_Latn -
it ita_Latn it_IT
ja jpn_Jpan ja_XX jap
jv jav_Latn -
ka kat_Geor ka_GE
kg kon_Latn -
ki kik_Latn -
kk kaz_Cyrl kk_KZ
km khm_Khmr km_KH
kn kan_Knda -
ko kor_Hang ko_KR
ks kas_Arab -
ku kmr_Latn - kur
ky kir_Cyrl -
lb ltz_Latn -
lg lug_Latn -
li lim_Latn -
ln lin_Latn -
lo lao_Laoo -
lt lit_Latn lt_LT
lv lvs_Latn lv_LV lav
mg plt_Latn - mlg
mi mri_Latn -
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
ny nya_Latn -
oc oci_Latn -
om gaz_Latn - orm
or ory_Orya - ori
pa pan_Guru -
pl pol_Latn pl_PL
ps pbt_Arab ps_AF pus
pt por_Latn pt_XX
qu quy_Latn - que
rn run_Latn -
ro ron_Latn ro_RO
ru rus_Cyrl ru_RU
rw kin_Latn -
sa san_Deva -
sc srd_Latn -
sd snd_Arab -
sg sag_Latn -
si sin_Sinh si_LK
sk slk_Latn -
sl slv_Latn sl_SI
sm smo_Latn -
sn sna_Latn -
so som_Latn -
sq als_Latn - sqi
sr srp_Cyrl -
ss ssw_Latn -
st sot_Latn -
su sun_Latn -
sv swe_Latn sv_SE
sw swh_Latn sw_KE swa
ta tam_Taml ta_IN
te tel_Telu te_IN
tg tgk_Cyrl -
th tha_Thai th_TH
ti tir_Ethi -
tk tuk_Latn -
tl tgl_Latn tl_XX
tn tsn_Latn -
tr tur_Latn tr_TR
ts tso_Latn -
tt tat_Cyrl -
tw twi_Latn -
ug uig_Arab -
uk ukr_Cyrl uk_UA
ur urd_Arab ur_PK
uz uzn_Latn - uzb
vi vie_Latn vi_VN
wo wol_Latn -
xh xho_Latn xh_ZA
yi ydd_Hebr - yid
yo yor_Latn -
zh zho_Hans zh_CN cmn
zu zul_Latn -
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
