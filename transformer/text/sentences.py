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
    "allg anm aufl ausg bearb bes betr dipl durchschn ehem einschl entspr erm fa frdl "
    "geb gebr gegr gem gest gez habil hl hrn hrsg ing inh inkl insb jew jur kgl lat "
    "mult nachf nat pckg phil präs resp röm spez stellv städt teilw tel theol tsd ugs "
    "urspr verh vorauss vors wg ziff zit zzgl ähnl österr ü".split()
)
ENGLISH = frozenset("approx assoc avg est incl tel temp".split())
# Abbreviations if a number follows: "No. 5", but "He said no."
BEFORE_NUMBERS = frozenset(
    "abb abs abschn anh anm apr art aufl aug bd bj bl buchst ch chap dec dez di ed eq "
    "eqs feb ff fig figs fr ft jan kap max mi min mind mo no nos nov nr nrn oct okt "
    "par pos pp pt rn sa sec sept str tab tel tz vol vols ziff".split()
)
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
NUMBER = re.compile(r"\d|[IVXLC]+\b")
# After these of BEFORE_NUMBERS, "I" is the English pronoun: "He said no. I left." After
# the others, it is a number: "Vol. I".
BEFORE_PRONOUN = frozenset("apr aug dec ed feb jan max min no nov oct".split())
PRONOUN = re.compile(r"I\b")
WORD = re.compile(r"\S+")
# What a sentence may begin with after a number, but no noun: "am 3. Oktober", but "Er
# fand Nr. 5. Die anderen fehlen."
NO_NOUNS = frozenset(
    "aber alle auch auf aus bei bis da damals danach dann das dass den der des die "
    "dies diese dieser dieses doch ein eine einer er es für hier ich ihr im in ist ja "
    "jetzt man mit nach nein nicht nun ob oder seit sie so und von vor was wenn wer "
    "wie wir wo zu".split()
)
WINDOW = 2000  # characters of a line that sentencex reads at once
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
        words = ["", ""]  # the last two
        pieces = split_line(stripped)
        for piece, next_piece in zip(pieces, pieces[1:] + [""]):
            start += len(piece)
            words = (words + piece.split())[-2:]
            if next_piece and not _goes_on(words, piece, next_piece, language):
                yield start + len(next_piece) - len(next_piece.lstrip())


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


def _goes_on(words, piece, next_piece, language):
    """Return whether a sentence goes on after a piece, although the splitter ended it.

    Args:
      words: the last two words of the line up to the end of the piece.
      piece: a piece of a line.
      next_piece: the piece after it.
      language: the language of the text.
    """
    before, word = words[0], words[-1].rstrip(")]")
    if not word.endswith("."):
        return False
    is_apart = piece[-1].isspace() or next_piece[0].isspace()
    if not is_apart:  # "Dipl.-Ing."; in Chinese, white space is not needed
        return next_piece[0] < "\u2e80"
    base = _base(language)
    following = next_piece.lstrip().lstrip(OPENING)
    is_lower = following[:1].islower()
    bare = _bare_word(word)
    if bare in BEFORE_NUMBERS or bare.endswith("str"):
        is_number = NUMBER.match(following)
        if is_number and not _begins_with_pronoun(following, word, language):
            return True
        if is_lower:
            return True
    if is_lower and base != "en":
        return True
    if base in ("en", "") and bare in ENGLISH:
        return True
    if base in ("de", ""):
        return bare in GERMAN or _is_ordinal(_bare_word(before), bare, following)
    return False


def _is_ordinal(before, number, following):
    """Return whether a number and a full stop are an ordinal: "am 3. Oktober".

    Args:
      before: the word before the number.
      number: a word that may be a number, without its full stop.
      following: the text after the full stop.
    """
    first_word = re.match(r"\w*", following).group().lower()
    return (
        number.isdigit()
        and len(number) <= 2
        and following[:1].isalpha()
        and first_word not in NO_NOUNS
        and before not in BEFORE_NUMBERS  # "Nr. 5."
    )


def _bare_word(word):
    """Return the last part of a word in lower case: ing for "(Dipl.-Ing."."""
    return re.split(r"[-/(]", word.lstrip(OPENING))[-1].rstrip(".").lower()
