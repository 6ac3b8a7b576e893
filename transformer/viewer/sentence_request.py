"""What a client asks about one sentence."""

from typing import NamedTuple, Optional, Sequence, Tuple, Union, cast

MAX_PIECES = 256  # of a sentence: attention grows with the square of this


class NoPiecesError(ValueError):
    """A sentence has nothing that the model could read."""


class SentenceRequest(NamedTuple):
    """A request to translate one sentence, or to inspect its translation.

    Only the page uses `prefix`, `target`, `padding`, `leave_out`, `word` and `heads`.
    A prefix or a target is text, or ids without the end.
    """

    text: str
    prefix: Union[str, Sequence[int]] = ()  # what the translation begins with
    # The translation to inspect, or to explain; None: the best one.
    target: Union[None, str, Sequence[int]] = None
    padding: int = 0  # pieces of padding after the sentence
    alignments: bool = False
    words: bool = False  # whether `describe_words` is wanted
    leave_out: bool = True  # whether an inspection leaves out each word
    word: int = 0  # the index of the word of `target` whose choices are wanted
    # (kind, layer, head) of attention heads: see HeadName.
    heads: Sequence[Tuple[str, int, int]] = ()

    @property
    def target_ids(self) -> Optional[Sequence[int]]:
        """The `target` of a request that does not take text."""
        return cast(Optional[Sequence[int]], self.target)
