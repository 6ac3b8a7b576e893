"""Open log directories for the page, and answer its requests."""

import os
from typing import Any, Dict, List, Sequence, Tuple

from transformer.decoding import hypotheses_kept
from transformer.evaluation import read_parallel
from transformer.seeing import confidence
from transformer.seeing.packing import packed
from transformer.seeing.sight import see
from transformer.translator import Translator


class Model:
    """A checkpoint of a log directory, opened for the page.

    Args:
      hp: the settings.
      logdir: the log directory.
      which: "best", "newest" or a step.
      warn: function of a text.
      others: (settings, log directory) of models that translate together with it; the
        attention that is shown is that of the first.
    """

    def __init__(
        self,
        hp,
        logdir: str,
        which="best",
        warn=None,
        others: Sequence[Tuple[Any, str]] = (),
    ):
        kept = hypotheses_kept(hp.search, hp.beam_size)
        self.translator = Translator(hp, logdir, kept, True, others)
        given = () if warn is None else (warn,)
        self.checkpoint = self.translator.restore_found(which, *given)
        self.logdir, self.is_alone = logdir, not others
        self.name = " + ".join(map(_name, self.translator.checkpoints))
        self.legend = None
        if self.is_alone:
            self.legend = confidence.read(logdir, self.checkpoint)

    def close(self) -> None:
        """Close the session."""
        self.translator.__exit__(None, None, None)

    def told(self) -> Dict[str, Any]:
        """Return what the page is told of the model."""
        hp = self.translator.hp
        return {
            "name": self.name,
            "layers": hp.num_blocks,
            "heads": hp.num_heads,
            "search": hp.search,
            "beam": hypotheses_kept(hp.search, hp.beam_size),
            "lengthPenalty": hp.length_penalty,
            "legend": self.legend,
        }

    def translate(self, asked: Sequence) -> List[List[Dict[str, Any]]]:
        """Return the n best translations of each line that is asked about.

        Args:
          asked: each with a `text` and a `prefix`: ids, how translations begin.
        """
        prefixes = [each.prefix for each in asked]
        return [
            [{"text": each.text, "score": each.score} for each in row]
            for row in self.translator.translate(
                [each.text for each in asked], prefixes if any(prefixes) else ()
            )
        ]

    def see(self, asked: Sequence) -> List[Dict[str, Any]]:
        """Return what can be seen of translations, as JSON: see `sight.see`.

        Args:
          asked: each with a `text`, `prefix`, `target` and `padding`.
        """
        return [
            packed(
                see(self.translator, each.text, each.prefix, each.target, each.padding)
            )
            for each in asked
        ]

    def pieces(self, line: str) -> int:
        """Return how many pieces a line has."""
        return len(self.translator.vocabularies.source.encode(line))

    def count_confidence(self):
        """Yield while the legend of confidence is counted on dev; then keep it.

        Where the data folder is not there, there is no legend.
        """
        if self.legend is not None:
            return
        try:
            dev = read_parallel(self.translator.hp.data, "dev")
        except (OSError, ValueError):
            return
        for legend in confidence.count(self.translator, dev.sources, dev.references):
            if legend is not None:
                self.legend = legend
                if self.is_alone:
                    confidence.write(self.logdir, self.checkpoint, legend)
            yield


def _name(checkpoint):
    """Return the name of a checkpoint: its log directory, its file."""
    logdir, name = os.path.split(os.path.abspath(checkpoint))
    return f"{os.path.basename(logdir)} · {name}"
