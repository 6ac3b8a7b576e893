"""Open log directories for the service and its page, and answer their requests."""

import contextlib
import hashlib
import os
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from transformer.exports.ctranslate2 import QUANTIZATIONS, TENSORFLOW
from transformer.logdir.history import read_dev_scores
from transformer.logdir.names import checkpoint_step
from transformer.model import variable_shapes
from transformer.text.corpus import NEUTRAL_LANGUAGES
from transformer.text.data_folder import (
    choose_dev_lines,
    find_references,
    read_languages,
    read_summary,
)
from transformer.text.public_corpora import DOMAINS
from transformer.viewer.doubts import describe_words
from transformer.viewer.example import inspect_example
from transformer.viewer.heads import (
    HeadName,
    ablate,
    ablate_each,
    ablation_to_json,
    head_to_json,
    inspect_head,
)
from transformer.viewer.inspection import (
    inspect_line,
    leave_out_each,
    list_choices,
    round_floats,
    to_json,
)
from transformer.viewer.searches import RecentTranslator
from transformer.viewer.sentence_request import MAX_PIECES, SentenceRequest
from transformer.viewer.test_sentences import TestSentences, read_references
from transformer.viewer.training_pairs import TrainingPairs, open_training_pairs
from transformer.viewer.why_not import explain_line, explanation_to_json

NUM_EXAMPLES = 6  # of the dev split, which the page offers


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
      references: a source file and a reference file, for the test sentences; None: the
        test or dev split of the data folder.
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
        references: Optional[Sequence[str]] = None,
    ):
        self.n_best = hp.num_hypotheses  # at most
        self.max_pieces = min(MAX_PIECES, hp.max_source_length)
        self.languages = tuple(
            languages or read_languages(hp.data) or NEUTRAL_LANGUAGES
        )
        # The page inspects the model in TensorFlow, also if another engine translates.
        self.translator = RecentTranslator.for_settings(
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
        self._examples = choose_dev_lines(hp.data, NUM_EXAMPLES)
        self._about = describe_checkpoint(
            hp, self.translator.checkpoints[0], bool(self._examples)
        )
        text = read_references(hp.data, references)
        self.test_sentences = TestSentences(text, self.translator)
        self._is_train_open = False
        self._training_pairs: Optional[TrainingPairs] = None

    def close(self) -> None:
        """Close the session."""
        self.translator.close()

    def describe(self) -> Dict[str, Any]:
        """Describe the model for the page."""
        return {
            **describe_model(
                self.translator.hp, self.logdir, self.name, self.languages
            ),
            "about": self._about,
            "examples": self._examples,
            "testSentences": {
                "name": self.test_sentences.name,
                "total": self.test_sentences.total,
            },
        }

    def inspect_example(self) -> Optional[Dict[str, Any]]:
        """Inspect the sentence that the page opens with; None: it opens empty."""
        if not self._examples:
            return None
        references = find_references(self.translator.hp.data, self._examples)
        return inspect_example(self.translator, self._examples, references)

    def translate(
        self, requests: Sequence[SentenceRequest]
    ) -> List[List[Dict[str, Any]]]:
        """Return the n best translations of each sentence.

        Args:
          requests: the sentences. If one of them has `alignments` set, each translation
            has the pairs [source word, target word] that correspond, or None if the
            words are unclear. `truncated` tells whether a translation has reached its
            length limit. If a request has `words` set, the best translation has what
            `describe_words` returns.
        """
        n_bests = self.translator.translate(
            [request.text for request in requests],
            alignments=any(request.alignments for request in requests),
            all_cores=False,  # the fast engine is called from a thread for each core
        )
        answers: List[List[Dict[str, Any]]] = [
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
        for request, n_best in zip(requests, answers):
            if request.words:
                [best, *_] = n_best
                best.update(describe_words(self.translator, request.text, best["text"]))
        return answers

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
                    request.leave_out,
                )
            )
            for request in requests
        ]

    def leave_out_words(
        self, requests: Sequence[SentenceRequest]
    ) -> List[List[List[float]]]:
        """Measure what each source word contributes to the `target` of each request.

        Returns:
          For each sentence, `without` of a LineInspection.
        """
        return [
            round_floats(
                leave_out_each(self.translator, request.text, request.target_ids or [])
            )
            for request in requests
        ]

    def list_words(
        self, requests: Sequence[SentenceRequest]
    ) -> List[List[Dict[str, Any]]]:
        """Return the choices for the `word` of each request, as JSON."""
        return [
            [
                {
                    "word": choice.word,
                    "probability": round_floats(choice.probability),
                    "ids": choice.ids,
                    "isEnd": choice.is_end,
                }
                for choice in list_choices(
                    self.translator,
                    request.text,
                    request.target_ids or [],
                    request.word,
                )
            ]
            for request in requests
        ]

    def inspect_heads(self, requests: Sequence[SentenceRequest]) -> List[Dict]:
        """Read what the first head of each request computes; return it as JSON."""
        return [
            head_to_json(
                inspect_head(
                    self.translator,
                    request.text,
                    HeadName(*request.heads[0]),
                    request.target_ids,
                    request.prefix,
                    request.padding,
                )
            )
            for request in requests
        ]

    def ablate(self, requests: Sequence[SentenceRequest]) -> List[Dict]:
        """Translate each sentence without the heads of its request: an Ablation."""
        return [
            ablation_to_json(
                ablate(
                    self.translator,
                    request.text,
                    [HeadName(*head) for head in request.heads],
                    request.target_ids,
                    request.prefix,
                )
            )
            for request in requests
        ]

    def ablate_each(self, requests: Sequence[SentenceRequest]) -> List[Dict]:
        """Switch off each head alone; see `heads.ablate_each`."""
        return [
            round_floats(
                ablate_each(self.translator, request.text, request.target_ids or [])
            )
            for request in requests
        ]

    def explain(self, requests: Sequence[SentenceRequest]) -> List[Dict[str, Any]]:
        """Explain what became of the `target` of each request, as JSON."""
        return [
            explanation_to_json(
                explain_line(self.translator, request.text, request.target or "")
            )
            for request in requests
        ]

    def find_training_pairs(
        self, requests: Sequence[SentenceRequest]
    ) -> List[Optional[Dict[str, Any]]]:
        """Find the training pairs that share the rarest words with each sentence.

        Returns:
          What `TrainingPairs.find` returns; None: the data folder is not there.
        """
        if not self._is_train_open:  # it is opened when it is first searched
            self._is_train_open = True
            translator = self.translator
            self._training_pairs = open_training_pairs(
                translator.hp.data, self.logdir, translator.vocabularies
            )
        pairs = self._training_pairs
        return [pairs.find(request.text) if pairs else None for request in requests]

    def has_chosen_head(self) -> bool:
        """Tell whether an attention head was chosen to align words."""
        return self.translator.read_chosen_head() is not None

    def count_pieces(self, line: str) -> int:
        """Return the number of pieces in a line."""
        return len(self.translator.vocabularies.source.encode(line))

    def count_target_pieces(self, line: str) -> int:
        """Return the number of pieces in a line of the target language."""
        return len(self.translator.vocabularies.target.encode(line))


def checkpoint_name(checkpoint):
    """Return the name that the page shows: the log directory and the file."""
    logdir, name = os.path.split(os.path.abspath(checkpoint))
    return f"{os.path.basename(logdir)} · {name}"


def describe_checkpoint(hp, checkpoint: str, has_examples: bool) -> List[str]:
    """Return facts about a model: corpus, what it is good at, size, BLEU on dev.

    Args:
      hp: the settings.
      checkpoint: its path, without file extensions.
      has_examples: whether the page offers sentences like those of the corpus.
    """
    facts = []
    domain = "sentences like the examples" if has_examples else ""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        summary = read_summary(hp.data)
        pairs = summary["splits"]["train"]["pairs"]
        corpus = os.path.basename(os.path.abspath(hp.data))
        facts.append(f"trained on {pairs:,} sentence pairs ({corpus})")
        if {summary["source_lang"], summary["target_lang"]} == {"de", "en"}:
            domain = DOMAINS.get(corpus, domain)
    if domain:
        facts.append(f"best at {domain}")
    size = sum(int(np.prod(shape)) for shape in variable_shapes(hp).values())
    facts.append(f"{size / 1e6:.1f} million parameters")
    step = checkpoint_step(checkpoint)
    scores = read_dev_scores(os.path.dirname(checkpoint))
    for row in [row for row in scores if row["step"] == step][-1:]:
        facts.append(f"BLEU {row['bleu']:.1f} on dev")
    return facts


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
        "sourceVocabulary": hp.source_vocab_size,
    }
