"""Open log directories for the service and its page, and answer their requests."""

import hashlib
import os
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from transformer.exports.ctranslate2 import QUANTIZATIONS, TENSORFLOW
from transformer.text.corpus import NEUTRAL_LANGUAGES
from transformer.text.data_folder import read_languages
from transformer.translator import Translator
from transformer.viewer.inspection import inspect_line, to_json
from transformer.viewer.sentence_request import MAX_PIECES, SentenceRequest


class Model:
    """A checkpoint of a log directory, opened for the service.

    Args:
      hp: the settings.
      logdir: the log directory.
      which: "best", "newest" or a step.
      warn: function of a text.
      others: (settings, log directory) of models that translate together with this one;
        only the attention of the first model is shown.
      languages: the source and target languages; None: those of the data folder, or
        NEUTRAL_LANGUAGES if it is missing.
      engine, quantization: as in Translator.
    """

    def __init__(
        self,
        hp,
        logdir: str,
        which: Union[str, int] = "best",
        warn: Callable[[str], None] = warnings.warn,
        others: Sequence[Tuple[Any, str]] = (),
        languages: Optional[Sequence[str]] = None,
        engine: str = TENSORFLOW,
        quantization: str = QUANTIZATIONS[0],
    ):
        self.n_best = hp.num_hypotheses  # at most
        self.max_pieces = min(MAX_PIECES, hp.max_source_length)
        self.languages = tuple(
            languages or read_languages(hp.data) or NEUTRAL_LANGUAGES
        )
        # The page inspects the model in TensorFlow, also if another engine translates.
        self.translator = Translator.for_settings(
            hp,
            logdir,
            self.n_best,
            True,
            others,
            engine=engine,
            quantization=quantization,
            warn=warn,
        )
        self.translator.find_and_restore(which)
        self.logdir = logdir
        self.name = " + ".join(map(checkpoint_name, self.translator.checkpoints))

    def close(self) -> None:
        """Close the session."""
        self.translator.close()

    def describe(self) -> Dict[str, Any]:
        """Describe the model for the page."""
        return describe_model(
            self.translator.hp, self.logdir, self.name, self.languages
        )

    def translate(
        self, requests: Sequence[SentenceRequest]
    ) -> List[List[Dict[str, Any]]]:
        """Return the n best translations of each sentence.

        Args:
          requests: the sentences. If one of them has `alignments` set, each translation
            has the pairs [source word, target word] that correspond, or None if the
            words are unclear. `truncated` tells whether a translation has reached its
            length limit.
        """
        n_bests = self.translator.translate(
            [request.text for request in requests],
            alignments=any(request.alignments for request in requests),
        )
        return [
            [
                {
                    "text": translation.text,
                    "score": round(translation.score, 6),
                    "alignment": translation.alignment
                    and sorted(translation.alignment),
                    "truncated": translation.is_truncated,
                }
                for translation in n_best
            ]
            for n_best in n_bests
        ]

    def inspect(self, requests: Sequence[SentenceRequest]) -> List[Dict[str, Any]]:
        """Inspect the translation of each sentence; return the inspections as JSON."""
        return [
            to_json(
                inspect_line(
                    self.translator,
                    request.text,
                    request.prefix,
                    request.target,
                    request.padding,
                )
            )
            for request in requests
        ]

    def has_chosen_head(self) -> bool:
        """Tell whether an attention head was chosen to align words."""
        return self.translator.read_chosen_head() is not None

    def count_pieces(self, line: str) -> int:
        """Return the number of pieces in a line."""
        return len(self.translator.vocabularies.source.encode(line))


def checkpoint_name(checkpoint):
    """Return the name that the page shows: the log directory and the file."""
    logdir, name = os.path.split(os.path.abspath(checkpoint))
    return f"{os.path.basename(logdir)} · {name}"


def describe_model(hp, logdir: str, name: str, languages: Sequence[str]) -> Dict:
    """Describe a model for the page.

    Args:
      hp: the settings.
      logdir: the log directory.
      name: the name that the page shows.
      languages: the source and target languages.
    """
    logdir = os.path.realpath(logdir)
    return {
        "name": name,
        # The same for all checkpoints of a training run; it does not reveal the path.
        "run": hashlib.sha256(os.fsencode(logdir)).hexdigest()[:16],
        "layers": max(hp.encoder_blocks, hp.decoder_blocks),
        "heads": hp.num_heads,
        "search": hp.search,
        "beam": hp.num_hypotheses,
        "languages": languages,
        "lengthPenalty": hp.length_penalty,
    }
