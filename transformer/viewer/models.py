"""Open log directories for the service and its page, and answer their requests."""

import hashlib
import os
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from transformer.exports.ctranslate2 import QUANTIZATIONS, TENSORFLOW
from transformer.serving.requests import MOST_PIECES
from transformer.text.corpus import NEUTRAL
from transformer.text.data_folder import read_summary
from transformer.translator import Translator
from transformer.viewer.sight import packed, see


class Model:
    """A checkpoint of a log directory, opened for the service.

    Args:
      hp: the settings.
      logdir: the log directory.
      which: "best", "newest" or a step.
      warn: function of a text.
      others: (settings, log directory) of models that translate together with this one;
        only the attention of the first model is shown.
      languages: the source and target languages; None: those of the data folder.
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
        self.n_best = hp.hypotheses  # at most
        self.most_pieces = min(MOST_PIECES, hp.max_source_length)
        self.languages = tuple(languages or _languages(hp.data, warn))
        self.translator = Translator(
            hp,
            logdir,
            self.n_best,
            True,
            others,
            engine=engine,
            quantization=quantization,
            warn=warn,
        )
        self.checkpoint = self.translator.restore_found(which)
        self.logdir = logdir
        self.name = " + ".join(map(_name, self.translator.checkpoints))

    def close(self) -> None:
        """Close the session."""
        self.translator.__exit__(None, None, None)

    def description(self) -> Dict[str, Any]:
        """Return what the page shows about the model."""
        hp = self.translator.hp
        logdir = os.path.realpath(self.logdir)
        return {
            "name": self.name,
            # The same for all checkpoints of a training run; it does not reveal the
            # path.
            "run": hashlib.sha256(os.fsencode(logdir)).hexdigest()[:16],
            "layers": max(hp.encoder_blocks, hp.decoder_blocks),
            "heads": hp.num_heads,
            "search": hp.search,
            "beam": self.n_best,
            "languages": self.languages,
            "lengthPenalty": hp.length_penalty,
        }

    def translate(self, asked: Sequence) -> List[List[Dict[str, Any]]]:
        """Return the n best translations of each requested line.

        Args:
          asked: requests, each with a `text`. If one of them has `alignments` set, each
            translation has the pairs [source word, target word] that correspond, or
            None if the words are unclear.
        """
        n_best = self.translator.translate(
            [each.text for each in asked],
            alignments=any(each.alignments for each in asked),
        )
        return [
            [
                {
                    "text": each.text,
                    "score": round(each.score, 6),
                    "alignment": each.alignment and sorted(each.alignment),
                }
                for each in row
            ]
            for row in n_best
        ]

    def see(self, asked: Sequence) -> List[Dict[str, Any]]:
        """Return what can be seen of translations, ready for JSON: see `sight.see`.

        Args:
          asked: requests, each with a `text`, `prefix`, `target` and `padding`.
        """
        return [
            packed(
                see(self.translator, each.text, each.prefix, each.target, each.padding)
            )
            for each in asked
        ]

    def pieces(self, line: str) -> int:
        """Return the number of pieces in a line."""
        return len(self.translator.vocabularies.source.encode(line))


def _languages(folder, warn):
    """Return the languages of a data folder, or neutral names if it is missing."""
    try:
        summary = read_summary(folder)
        return summary["source_lang"], summary["target_lang"]
    except (OSError, ValueError):
        warn(
            f"{folder}: expected the data folder, which names the languages, got none; "
            f"clients find {' and '.join(NEUTRAL)}: name them with --languages"
        )
        return NEUTRAL


def _name(checkpoint):
    """Return the name of a checkpoint: its log directory and its file."""
    logdir, name = os.path.split(os.path.abspath(checkpoint))
    return f"{os.path.basename(logdir)} · {name}"
