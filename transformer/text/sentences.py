"""Split paragraphs into sentences and join them, for models trained on sentences.

A sentence ends at the end of a line. Within a line, sentencex (the extra `sentences`)
finds the ends in some 300 languages. Some German and English abbreviations that it does
not know are listed here.

Without sentencex, a sentence ends after ". ! ? …", and any quotes or brackets that
close there, if white space follows and the next character is not a lower-case letter.
It does not end after an abbreviation or a single letter ("J. S. Bach", "z. B."). These
rules are made for German and English.
"""

import re
from typing import Callable, Iterator, List, Sequence, Tuple

try:
    import sentencex
except ImportError:  # it needs Python 3.10
    sentencex = None

ENDS = (".", "!", "?", "…")
OPENING = "\"'“„‘‚«»([{"
CLOSING = "\"'”“’‘»«)]}"
# Abbreviations that sentencex 1.0.32 does not know, in lower case and without the final
# full stop. It has no way to add them.
GERMAN = frozenset(
    "abg abt allg anm aufl ausg bearb bes betr bez bgm dipl durchschn ehem einschl em "
    "entspr erm fa fam frdl frhr gde geb gebr gegr gem gest gez habil hl hrn hrsg ing "
    "inh inkl insb insp jew jur kfm kgl lat ldkr lkr msgr mult nachf nat oblt pckg pfr "
    "phil prov präs resp röm sekr spez staatssekr stellv stud städt techn teilw tel "
    "theol tsd ugs urspr verf verh vorauss vors wg ziff zit zzgl ähnl österr ü".split()
)
# An adjective in -lich: "tägl. 2 Tropfen". No German word ends like this.
SHORT_ADJECTIVE = re.compile("[a-zäöüß]{2,}[bdgmnrt]l")
ENGLISH = frozenset("approx assoc avg em est incl tel temp".split())
# Abbreviations if a number follows: "No. 5", but "He said no."
BEFORE_NUMBERS = frozenset(
    "abb abs abschn al alg anh anl anm apr apt art aufl aug az bd bde beil bj bl bldg "
    "buchst ch chap chs cl cor dec def dez di diagr do ed eq eqs ext feb febr ff fig "
    "figs fn fr ft gl gln gr jan jg kap kat lem lfg lit ln max mi min mind mo no nos "
    "nov nr nrn oct okt par para paras pg pkt pl pos pp prop props pt rdnr ref refs rm "
    "rn rz sa sec secs sect sects sept ste str suppl tab taf tel thm thms tl tz ver "
    "vers vol vols whg zi ziff".split()
)
# Abbreviations before a number, but words in lower case: "Ex. 3", "Op. 27".
CAPITAL_BEFORE_NUMBERS = frozenset(
    "app col ex exs mon op reg rem sat sun thu thurs tue tues wed".split()
)
# Ends of compounds that are abbreviations before a number: "Gartenstr. 5".
ENDS_BEFORE_NUMBERS = ("str", "nr", "pl")
# What may follow them besides a number.
NUMBERED = (
    r"(?:No|Nr|Nrn|Hausnr|Apt|Bldg|Haus|Halle|Rm|Ste|Suite|Whg|Zi)\b\.? ?\d"
    "|Ecke [A-Z]"
)
# Streets, which may end a sentence: "Main St. Apt. 3", but "Main St. We left."
STREETS = frozenset("ave blvd ln pl rd sq st str".split())
# Abbreviations before a capital letter: "App. B", "Figs. A and B".
BEFORE_LETTERS = frozenset("abb anh app eq eqs fig figs kap nr sec tab vol".split())
LETTER = re.compile(r"[A-Z]\b(?!\.)")
# Abbreviations that sentencex knows.
KNOWN = frozenset(
    "adm art asst brig bzgl bzw ca capt cf cmdr co col dept dr e.g etc evtl fr ggf "
    "gov hon hr hwy i.d.r i.e i.h.v inc ing jr jun kath lfd lt ltd mag maj med messrs "
    "mio mr mrd mrs ms mt nr prof pvt rd reg rep rev sen sgt sog sogen sr st supt u.a "
    "univ usw vgl vs z.b".split()
)
# Ends that sentencex 1.0.32 does not see: "(Er kam.) Sie", "Er kam … Sie", "Was?! Sie".
# Nor does it see an end before a number: "Er kam. 1990 ging er."
MISSED = re.compile(r"(?:…|[.!?][)\]]|[!?]{2})[\"”“’»«]*$")
ROMAN = re.compile(r"[IVX]{2,}")
NUMBER = re.compile(rf"[\[(]?\d|[IVXLC]+\b|{NUMBERED}")
# After these of BEFORE_NUMBERS, "I" is the English pronoun: "He said no. I left." After
# the others, it is a number: "Vol. I".
BEFORE_PRONOUN = frozenset("apr aug dec ed feb jan max min no nov oct".split())
PRONOUN = re.compile(r"I\b")
WORD = re.compile(r"\S+")
# A number before a noun is an ordinal after these, or one word later: "im 2. Stock",
# "die berühmte 9. Sinfonie", but "Er ist 12. Anna ist 9."
BEFORE_ORDINALS = frozenset(
    "ab als am an ans auf aus bei beim bis das dein deine dem den der des dessen die "
    "diese diesem diesen dieser dieses durch ein eine einem einen einer eines für "
    "gegen ihr ihre ihrem ihren ihrer im in ins jede jedem jeden jeder jedes kein "
    "keine mein meine meinem meinen meiner mit nach nur oder ohne sein seine seinem "
    "seinen seiner seit sowie um und unser unsere unserem unserer unter vom von vor "
    "zum zur zwischen über".split()
)
MONTH = re.compile(
    "(?:Jan|Jän|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Oct|Nov|Dez|Dec|May)"
)
# The rest of a date after its day, "3. 10. 1990" or "1. 1.", and after its month.
MONTH_AND_YEAR = re.compile(r"(?:0?[1-9]|1[0-2])\. ?(?:\d|[a-z])")
YEAR = re.compile(r"\d{4}\b")
# What a sentence may begin with after a number, but no noun: "am 3. Oktober", but "Er
# fand Nr. 5. Die anderen fehlen."
NO_NOUNS = frozenset(
    "aber alle auch auf aus bei bis da damals danach dann das dass den der des die "
    "dies diese dieser dieses doch ein eine einer er es für hier ich ihr im in ist ja "
    "jetzt man mit nach nein nicht nun ob oder seit sie so und von vor was wenn wer "
    "wie wir wo zu".split()
)
WINDOW = 2000  # characters of a line that sentencex reads at once
LOOK_AHEAD = 100  # characters after an end that decide whether it is one
# Languages that are written without spaces between sentences.
UNSPACED = frozenset("zh zho cmn yue ja jpn".split())


def split(text: str, language: str = "") -> List[Tuple[str, str]]:
    """Return the sentences of a text, each with the white space that follows it.

    Joined again, they give the text, except for white space at its beginning.

        split("Dr. Bach kam. Er ging.")    # [("Dr. Bach kam.", " "), ("Er ging.", "")]

    Args:
      text: a text with any number of lines.
      language: its language, such as "de" or "zh-CN"; "" if it is unknown.
    """
    text = text.lstrip()
    starts = list(_find_starts(text, language))
    chunks = [text[start:end] for start, end in zip(starts, starts[1:] + [len(text)])]
    sentences = [chunk.rstrip() for chunk in chunks]
    return [
        (sentence, chunk[len(sentence) :]) for sentence, chunk in zip(sentences, chunks)
    ]


def join(
    translations: Sequence[str],
    sentences: Sequence[Tuple[str, str]],
    source: str = "",
    target: str = "",
) -> str:
    """Return the translation of a text: its translated sentences and the white space.

    Line ends are kept. From a language without spaces between sentences (Chinese,
    Japanese) to one with them, spaces are added; in the other direction, they are left
    out.

    Args:
      translations: the translation of each sentence.
      sentences: what `split` returned.
      source, target: the languages; "" if they are unknown.
    """
    spaces = [space for _, space in sentences]
    from_unspaced, to_unspaced = is_unspaced(source), is_unspaced(target)
    # Nothing is changed after the last sentence.
    for i, space in enumerate(spaces[:-1]):
        if from_unspaced and not to_unspaced and not space:
            spaces[i] = " "
        elif to_unspaced and not from_unspaced and not _has_line_end(space):
            spaces[i] = ""
    return "".join(
        translation + space for translation, space in zip(translations, spaces)
    )


def is_unspaced(language: str) -> bool:
    """Return whether a language is written without spaces between sentences."""
    return _base(language) in UNSPACED


def _base(language):
    """Return a language without its region and script: pt for pt-BR; "" if unknown."""
    base = re.split("[-_]", language.lower())[0]
    return base if re.fullmatch("[a-z]{2,3}", base) else ""  # not "source"


def _has_line_end(space):
    return len((space + ".").splitlines()) > 1


def _find_starts(text: str, language: str) -> Iterator[int]:
    """Yield where sentences start, beginning with 0, in a text without space before."""
    split_line = _choose_splitter(language)
    position = 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        start = position + len(line) - len(line.lstrip())
        position += len(line)
        if stripped:
            yield start
        words = ["", "", ""]  # the last three
        pieces = split_line(stripped)
        # Someone who begins a line with a small letter may begin each sentence so.
        has_capitals = _base(language) != "en" or not stripped[:1].islower()
        end = 0
        for piece in pieces:
            end += len(piece)
            rest = stripped[end : end + LOOK_AHEAD]
            words = (words + piece.split())[-3:]
            if not rest.strip() or (has_capitals and _is_inside(piece, rest)):
                continue
            if not _goes_on(words, piece, rest, language):
                yield start + end + len(rest) - len(rest.lstrip())


def _choose_splitter(language: str) -> Callable[[str], List[str]]:
    """Return the function that splits a line into pieces, which join to the line."""
    if sentencex is None:
        return lambda line: _split_after(_is_sentence_end, line)
    # sentencex has the abbreviations of German and English for German.
    code = _base(language) or "de"  # sentencex takes de-AT for an unknown language
    knows_abbreviations = code in ("de", "en")

    def is_end(word, next_word):
        """Return whether a sentence ends after a word that sentencex does not split."""
        is_missed = MISSED.search(word) or (
            next_word[0].isdigit()
            and (knows_abbreviations or not word.rstrip(CLOSING).endswith("."))
        )
        is_missed = is_missed or _begins_with_pronoun(next_word, word, language)
        return bool(is_missed) and _is_sentence_end(word, next_word)

    def split_line(line):
        # Rust knows no surrogates; the length stays the same.
        valid = line.encode("utf-8", "replace").decode("utf-8")
        pieces = _segment(code, valid)
        return [part for piece in pieces for part in _split_after(is_end, piece)]

    return split_line


def _segment(language, line):
    """Return the pieces of a line, as sentencex sees them.

    Its time grows with the square of the length of a text without spaces, so a long
    line is read in windows.
    """
    pieces = []
    position, size = 0, WINDOW
    while position < len(line):
        window = line[position : position + size]
        segments = sentencex.segment(language, window)
        if position + size < len(line):  # the last segment may go on
            if len(segments) == 1:
                size *= 2
                continue
            segments.pop()
        pieces += segments
        position += sum(map(len, segments))
        size = WINDOW
    return pieces


def _split_after(is_end: Callable[[str, str], bool], line: str) -> List[str]:
    """Split a line after words, given a function of a word and the next word."""
    pieces = []
    start = word_start = 0
    for space in re.finditer(r"\s+", line):
        next_word = WORD.match(line, space.end())
        if next_word and is_end(line[word_start : space.start()], next_word.group()):
            pieces.append(line[start : space.end()])
            start = space.end()
        word_start = space.end()
    return pieces + [line[start:]]


def _is_sentence_end(word, next_word):
    """Return whether a sentence ends between two words."""
    word = word.rstrip(CLOSING)
    if not word.endswith(ENDS) or next_word[0].islower():
        return False
    without_end = word.lstrip(OPENING)[:-1]
    if not word.endswith(".") or without_end.endswith(ENDS):
        return True
    last_part = without_end.rpartition(".")[2]  # "B" of "z.B"
    is_letter = last_part.isalpha() and len(last_part) == 1
    is_abbreviation = is_letter or without_end.lower() in KNOWN
    return not (is_abbreviation or ROMAN.fullmatch(without_end))


def _begins_with_pronoun(text, word, language):
    """Return whether a text begins with the pronoun "I", after a word such as "no."."""
    is_english = _base(language) in ("en", "")
    return is_english and _bare_word(word) in BEFORE_PRONOUN and PRONOUN.match(text)


def _is_inside(piece, rest):
    """Return whether a small letter follows a full stop, or no end: "[12] disagree"."""
    following = rest.lstrip().lstrip(OPENING)
    last = piece.rstrip().rstrip(CLOSING)[-1:]
    return following[:1].islower() and (last == "." or last.isalnum())


def _goes_on(words, piece, rest, language):
    """Return whether a sentence goes on after a piece, although the splitter ended it.

    Args:
      words: the last three words of the line up to the end of the piece.
      piece: a piece of a line.
      rest: the text after it, LOOK_AHEAD characters.
      language: the language of the text.
    """
    word = words[-1].rstrip(")]")
    if not word.endswith("."):
        return False
    is_apart = piece[-1].isspace() or rest[0].isspace()
    if not is_apart:  # "Dipl.-Ing."; in Chinese, white space is not needed
        return rest[0] < "\u2e80"
    base = _base(language)
    following = rest.lstrip().lstrip("\"'“„‘‚«»{")
    bare = _bare_word(word)
    if _is_before_number(bare, word) and not _begins_with_pronoun(
        following, word, language
    ):
        if NUMBER.match(following):
            return True
        if bare in BEFORE_LETTERS and LETTER.match(following):
            return True
    if bare in CAPITAL_BEFORE_NUMBERS and MONTH.match(following):
        return True
    if bare in STREETS and re.match(NUMBERED, following):
        return True
    if base in ("en", "") and bare in ENGLISH:
        return True
    if base in ("de", ""):
        is_short = bare in GERMAN or SHORT_ADJECTIVE.fullmatch(word[:-1])
        return bool(is_short) or _is_ordinal(words, bare, following)
    return False


def _is_before_number(bare, word):
    """Return whether a word is an abbreviation if a number follows.

    Args:
      bare: the word, as `_bare_word` returns it.
      word: the word.
    """
    if bare in CAPITAL_BEFORE_NUMBERS:
        return word.lstrip(OPENING)[:1].isupper()
    return bare in BEFORE_NUMBERS or bare.endswith(ENDS_BEFORE_NUMBERS)


def _is_ordinal(words, number, following):
    """Return whether a number and a full stop are an ordinal: "am 3. Oktober".

    Args:
      words: the last three words, of which the last may be a number.
      number: this word, without its full stop.
      following: the text after the full stop.
    """
    if not number.isdigit() or len(number) > 2:
        return False
    if MONTH.match(following) or MONTH_AND_YEAR.match(following):
        return True
    before = words[-2].lower()
    if re.fullmatch(r"\d{1,2}\.", before):  # the day of a date
        return bool(YEAR.match(following))
    first_word = re.match(r"\w*", following).group().lower()
    if not following[:1].isalpha() or first_word in NO_NOUNS:
        return False
    is_adjective = words[-2].isalpha() and words[-2].islower()
    return (
        before in BEFORE_ORDINALS
        or not before
        or (is_adjective and words[-3].lower() in BEFORE_ORDINALS)
    )


def _bare_word(word):
    """Return the last part of a word in lower case: ing for "(Dipl.-Ing."."""
    return re.split(r"[-/(]", word.lstrip(OPENING))[-1].rstrip(".").lower()
