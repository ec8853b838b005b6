"""Letter-to-sound rules of Spanish.

The pronunciation is that of most of America: seseo (c before e and i, s and z are one sound), yeísmo (ll = y),
b = v, silent h. The orthography is regular, so nearly every grapheme has one reading. The other readings are
for spellings that Spanish does not use but its readers understand (k, w, ph, q without u). The format is that of
the English rules: ``regex = reading | reading:cost``. Accents are removed first, because stress is not compared.
"""

from __future__ import annotations

import re

_ACCENTS = str.maketrans("áéíóúàèìòù", "aeiouaeiou")

_RULES = """
a = a
e = e
i = i
o = o
u = u
ü = u
y(?![aeiouáéíóúü]) = i
y(?=[aeiou]) = ʝ
(?<=[^aeiou])y(?=[aeiou]) = i
b = b
bb = b
v = b
vv = b
w = u | g u:0.1 | b:0.2
c(?![eihk]) = k
c(?=[ei]) = s
cc(?=[ei]) = k s
cc(?![ei]) = k
ch = tʃ
ck = k
k = k
kk = k
kh = k
q(?!u) = k
qh = k
qu(?=[ei]) = k
qu(?=[ao]) = k u | k:0.1
qü = k u
d = d
dd = d
f = f
ff = f
ph = f
g(?![ei]) = g
g(?=[ei]) = x
gu(?=[ei]) = g
gh = g
gü = g u | u:0.05
^gu(?=[ao]) = g u | u:0.1
gn = g n | ɲ:0.2
h = -
^hi(?=e) = ʝ | i
i(?=[aeou]) = i | ʝ:0.2
j = x
x = k s | x:0.2
^x = s | x:0.1
x(?=[^aeiouh]) = k s | s
xc(?=[ei]) = k s | s:0.05
xs = k s
cs = k s
ks = k s
l = l
ll = ʝ
m = m
mm = m
mb = m b
mp = m p
n = n
nn = n
n(?=[bpvmw]) = m
ñ = ɲ
ny = ɲ:0.1 | n ʝ
ni(?=[aou]) = n i | ɲ:0.2
nh = n | ɲ:0.1
p = p
pp = p
^ps = s
^pt = t
(?<!^)(?<![nls])r = r
^r = rr
(?<=[nls])r = rr
rr = rr
^rh = rr
rh = r | rr:0.1
s = s
ss = s
sc(?=[ei]) = s
sh = s:0.05
t = t
tt = t
th = t
ts = s:0.2 | t s
tz = s:0.2 | t s
z = s
zz = s
zc(?=[ei]) = s
zh = s
"""

SPANISH_RULES: tuple[str, ...] = tuple(line for line in _RULES.splitlines() if line.strip())


def strip_accents(text: str) -> str:
    """Remove the acute and grave accents of vowels; ñ and ü are separate letters and stay."""
    return text.translate(_ACCENTS)


def dialect(word: str, answer: str) -> str:
    """Return the mergers that make two Spanish spellings sound alike: ``seseo``, ``yeísmo``, both, or ``general``.

    With seseo, z and soft c sound like s; with yeísmo, ll sounds like y. In a made-up word, x between vowels is j.
    """
    mergers = []
    if _sibilants(word, jota=True) != _sibilants(answer, jota=False):
        mergers.append("seseo")
    if _palatals(word) != _palatals(answer):
        mergers.append("yeísmo")
    return " ".join(mergers) or "general"


def _sibilants(text: str, *, jota: bool) -> list[bool]:
    """Return which of the sounds written s, z, soft c and x are not s."""
    plain = strip_accents(text.casefold()).replace("ch", "")
    x = r"x(?![aeiou]|$)" if jota else "x"
    return [spelling[0] in "zc" for spelling in re.findall(rf"z+|c(?=[eiy])|s+|{x}", plain)]


def _palatals(text: str) -> list[bool]:
    """Return which of the consonants written ll, y and initial hie are ll."""
    plain = strip_accents(text.casefold())
    return [spelling == "ll" for spelling in re.findall(r"ll|(?:(?<=[aeiou])|^)y(?=[aeiou])|^hi(?=e)", plain)]
