"""Tables of alternative spellings of English sounds and Spanish graphemes.

English lines are ``phonemes = spelling spelling …``. Marks on a spelling restrict its position in a word:
``^kn`` only first, ``-ck`` not first, ``gu-`` not last, ``ce$`` only last.

Spanish lines are ``regex = spelling spelling …``. The regular expression matches letters of the written word,
so accents keep their place; ``-`` leaves the letters out. ``\\g<0>`` is the matched text.

A candidate from these tables is only a proposal: it is used if the letter-to-sound rules read it as the
answer. Spellings longer than the original are drawn less often, because additional silent letters make a word
ugly, not harder.
"""

from __future__ import annotations

_ENGLISH = """
B = b -bb-
CH = ch tch
D = d -dd
DH = th
F = ph f -ff -gh$
G = g gh- -gg
HH = h wh-
JH = j -dge$ dge-
K = k c kh -ck -que$ q-
L = l -ll
M = m -mm -mb$ -mme$
N = n ^kn ^gn -nn -ne$
NG = ng
P = p -pp
R = r ^wr ^rh -rr-
S = s c- ^ps -ss -ce$ sc-
SH = sh -ti- -ci-
T = t -tt ^pt -te$
TH = th
V = v -vv- -ve$
W = w wh-
Y = y-
Z = z ^x -zz -se$ -ze$
ZH = zh -si-
K S = x cks ks
K W = qu- kw-
K Y UW = kew cue
SH AH N = tion$ shun ssion$ cian$
ZH AH N = sion$ zhun
CH ER = chur tcher ture$
AH L = ull le$ al$
NG K = nck nk nque$
NG G = ngg ng-
AA = o ah aw au
AE = a ae-
AH = u uh a$ i o
AO = aw au augh ough
AW = ow ou
AY = igh y ie eigh
EH = e eh ea
EY = eigh ai ay ey aigh
IH = i y ih
IY = ee ea ie ei ey y$ ie$
OW = oa ow ough oh oe eau
OY = oy oi
UH = oo u
UW = ew oo ue ou
ER = ur ir er ear-
AA R = ar ahr
AO R = or aur oar ore$ our
EH R = air ayr are$ eir
IH R = ear eer ier ere$
AY ER = ire$ yre$ yer
AW ER = our ower
"""

_SPANISH = r"""
ll = y
y(?=[aeiouáéíóú]) = ll
y$ = i
qu(?=[eiéí]) = k kh qh
qu = k
cc(?=[eiéí]) = x ks
sc(?=[eiéí]) = s z
xc(?=[eiéí]) = cs ks x
c(?=[eiéí]) = s z ss zz
ch = ch
c = k kh qh
z = s ss zz
s = z zz ss
bb = v
b = v vh
v = b bh
gu(?=[eiéí]) = gh
gü = gw
gua = gwa ghua
g(?=[eiéí]) = j jh
g = gh
j(?=[eiéí]) = g jh
j = jh x
hue = we
hie = ye lle
h = -
^u = hu w
rr = rr
^r = rr rh
f = ph
x = cs ks kz
m(?=[bp]) = n
ua = wa hua
ue = we hue
ui = wi uy
ia = ya yah
ie = ye
io = yo
i = y yh
^[aeoáéó] = h\g<0>
[aeo](?=[^aeiouáéíóúh]) = \g<0>h
t = th tt
d = dh
l = lh
ñ = ny
"""

# Letter patterns that people would not read aloud as intended; candidates with one of them are dropped.
_ENGLISH_UNREADABLE = r"""
([bcdfgjklmnpqrstvxz])\1[^aeiouy]
[^aeiouy]([bcdfgjklmnpqrstvxz])\1
^(ps|pt|kn|gn|wr|rh|kh|gh)[^aeiouy]
[^aeiouy](kh|gh|wh|wr|rh|ck)
(kh|wh|gh)(w|h|r|l)
[aeiouy]{4}
(?<![aeiou])(?!tch|dge|dgi)[^aeiouy]{4}
[a-z]{2}([aeiouy])\1\1
[bdgkmptv]ce$
[bdfgkmnpt]que$
[^aeiouy]te$
[^aeiouyn]ne$
[^aeiouy]me$
[^aeiouy]ve$
[aeiou](igh|augh|eigh|ough|aigh)
(igh|augh|eigh|ough|aigh)[aeiouyhg]
[aeo]h[aeiouyh]
ih[aeiouyhrl]
uh[aeiouyhr]
eh[aeiouyhr]
[aeiou]w[aeiouyrh]
eau[a-z]*eau
igh[a-z]*igh
eigh[a-z]*eigh
[dtbpg]nk
q(?!u[aeiy])
qu(?!e$).$
^ck
cq
([aiuy])\1
"""

ENGLISH_UNREADABLE: tuple[str, ...] = tuple(line for line in _ENGLISH_UNREADABLE.splitlines() if line.strip())
ENGLISH_SPELLINGS: tuple[str, ...] = tuple(line for line in _ENGLISH.splitlines() if line.strip())
SPANISH_SPELLINGS: tuple[str, ...] = tuple(line for line in _SPANISH.splitlines() if line.strip())

_HETERONYMS = """
live lives read wind winds lead leads tear tears close use used house abuse excuse bow bows row rows sow
wound wounds minute desert deserts object present record refuse separate bass dove does invalid moderate
polish resume sewer graduate estimate alternate appropriate deliberate duplicate elaborate intimate
perfect project produce progress rebel reject subject suspect conduct conflict content contract contrast
convict address advocate aged articulate associate attribute august blessed buffet compact console
contest dictate digest entrance export extract import incense insult lower permit pasty predicate putting
recall rejoin secret slough supply transfer transport
"""

HETERONYMS: frozenset[str] = frozenset(_HETERONYMS.split())
"""English words with two pronunciations; the dictionary does not say which one a sentence means."""
