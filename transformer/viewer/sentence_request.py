"""What a client asks about one sentence."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

MAX_PIECES = 256  # of a sentence: attention grows with the square of this


class SentenceRequest(NamedTuple):
    """A request to translate one sentence, or to inspect its translation.

    Only the page uses `prefix`, `target`, `padding`, `leave_out`, `word` and `heads`.
    """

    text: str
    prefix: Sequence[int] = ()  # the ids that the translation begins with
    target: Optional[List[int]] = None  # the ids to inspect; None: the best translation
    padding: int = 0  # pieces of padding after the sentence
    alignments: bool = False
    leave_out: bool = True  # whether an inspection leaves out each word
    word: int = 0  # the index of the word of `target` whose choices are wanted
    # (kind, layer, head) of attention heads: see HeadName.
    heads: Sequence[Tuple[str, int, int]] = ()
