"""What the property tests draw from: text, bytes and settings of every kind."""
import math

from hypothesis import strategies as st

import hparams

# Whatever some program takes for the end of a line, nothing, or not a character.
ODD = ("\t\r\0\x01\x0b\x0c\x1b\x1c\x1d\x1e\x7f\x85\x9f\xa0\xad\u0301\u200b\u200d\u200e"
       "\u2028\u2029\u202e\u2060\u2581\u3000\ufeff\ufffd\uffff\U000e0041\U0001f642")

CHARACTERS = st.one_of(
    st.sampled_from("0123456789 aeßÜ<&>;.,|?'\"" + ODD),
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"))
LINES = st.text(CHARACTERS, max_size=25)
SPECIAL_LINES = st.sampled_from(
    ["</s>", "<unk> 1", "&#10;", "||| 1 ||| 2", "1 " * 99, "", " ", "\ufeff"])

# Bytes of a line: text, or anything at all.
RAW_LINES = st.one_of(
    st.one_of(LINES, SPECIAL_LINES).map(lambda line: line.encode("utf-8")),
    st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"\xc3")))


def values_of(field, largest=1000):
    """Values that `hparams.validate` accepts of one field."""
    least, below = field.metadata["least"], field.metadata["below"]
    if field.type is int:
        return st.integers(least, int(min(below - 1, largest)))
    if field.type is float:
        return st.floats(least, below, exclude_max=True)
    return st.booleans() if field.type is bool else st.text(max_size=12)


@st.composite
def settings(draw):
    """Settings that are all valid, by name."""
    values = draw(st.fixed_dictionaries({
        name: values_of(field) for name, field in hparams.FIELDS.items()}))
    heads = draw(st.integers(1, 8))
    values.update(num_heads=heads, d_model=heads * draw(st.integers(1, 9)))
    if values["joint_vocab"]:
        values["target_vocab_size"] = values["source_vocab_size"]
    return values


# What may stand in a JSON file, or be asked for by somebody who errs.
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from(
    [0, -1, 2 ** 31, 2 ** 63, 10 ** 400, -10 ** 400, math.nan, math.inf]))
ANYTHING = st.one_of(NUMBERS, st.none(), st.booleans(), st.text(max_size=5),
                     st.lists(NUMBERS, max_size=2))
NAMES = st.one_of(st.sampled_from(sorted(hparams.FIELDS)), st.text(max_size=5))
