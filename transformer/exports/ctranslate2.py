"""The fast engine: translate lines with a model exported for CTranslate2.

    from transformer.exports.ctranslate2 import open_exported

    with open_exported("logs/sample") as translator:
        [[best]] = translator.translate(["Der Hund schläft."])

It finds and scores translations as our beam search does, but without TensorFlow, whose
import takes seconds. `Translator(…, engine="ctranslate2")` makes the export next to the
checkpoint, and compares it with TensorFlow once; this file opens an existing export.
"""

import concurrent.futures
import contextlib
import os
import re
import shutil
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

from transformer.hparams import HParams, load, refuse_n_best
from transformer.length_penalty import length_penalty
from transformer.logdir.manifests import MANIFEST, to_try
from transformer.runtime import files
from transformer.runtime.devices import cores
from transformer.text.translations import BaseTranslator, Translation
from transformer.text.vocabulary import load_vocabularies

TENSORFLOW = "tensorflow"
CTRANSLATE2 = "ctranslate2"
ENGINES = (TENSORFLOW, CTRANSLATE2)
QUANTIZATIONS = ("float32", "int8")
MODEL = "model.bin"  # a file in each exported model
LONGEST = 1100  # positions of an exported model; our own sinusoids have no limit


def add_engine(parser: Any) -> None:
    """Add `--engine` and `--quantization` for a command that translates."""
    parser.add_argument(
        "--engine",
        default=TENSORFLOW,
        choices=ENGINES,
        help="ctranslate2 is faster: see docs/serving.md [tensorflow]",
    )
    parser.add_argument(
        "--quantization",
        default="float32",
        choices=QUANTIZATIONS,
        help="for ctranslate2: int8 is smaller, but slightly less precise [float32]",
    )


def unsupported_search(hp: HParams) -> List[str]:
    """Return the settings of the search with which it would translate differently."""
    found = {
        f"--search {hp.search}": hp.search not in ("beam", "greedy"),
        "--min_length": hp.min_length > 0,
        "--no_repeat_ngram": hp.no_repeat_ngram > 0,
        f"--max_source_length + --max_extra_length of {LONGEST:,} or more": (
            hp.max_source_length + hp.max_extra_length >= LONGEST
        ),
    }
    return [name for name, is_requested in found.items() if is_requested]


def usable(
    engine: str,
    quantization: str,
    hp: HParams,
    warn: Callable[[str], None],
    needs: Optional[Dict[str, bool]] = None,
) -> str:
    """Return the engine to use: TENSORFLOW if the fast one cannot do what is requested.

    Args:
      engine, quantization: what is requested.
      hp: the settings of the search.
      warn: function of a text; called if another engine is returned.
      needs: name of a feature that the fast engine lacks → whether it is requested.

    Raises:
      ValueError: a quantization is requested for TensorFlow.
    """
    if engine == TENSORFLOW and quantization != QUANTIZATIONS[0]:
        raise ValueError(
            f"--quantization {quantization}: expected --engine {CTRANSLATE2} too, got "
            f"{engine}"
        )
    cannot = {
        **(needs or {}),
        **dict.fromkeys(unsupported_search(hp), True),
        f"--decode_precision {hp.decode_precision}": hp.decode_precision != "float32",
        "--deterministic": hp.deterministic,
    }
    asked = [name for name, is_asked in cannot.items() if is_asked]
    if engine == CTRANSLATE2 and asked:
        warn(
            f"--engine {engine} does not support {', '.join(asked)}: TensorFlow is "
            "used instead"
        )
        return TENSORFLOW
    return engine


def folder_of(checkpoint: str, quantization: str) -> str:
    """Return the folder of the exported model of a checkpoint, which may be missing.

    Its name contains the checksum of the manifest, which covers the weights.

    Args:
      checkpoint: its path, without file extensions.
      quantization: one of QUANTIZATIONS.
    """
    checksum = files.sha256_of(checkpoint + MANIFEST)
    name = f"{CTRANSLATE2}-{quantization}-{checksum[:16]}"
    return os.path.join(os.path.dirname(checkpoint), name)


def remove_outdated(logdir: str) -> None:
    """Remove the exported models of checkpoints that no longer exist."""
    current: Set[str] = set()
    for checkpoint in to_try(logdir):
        for each in QUANTIZATIONS:
            with contextlib.suppress(FileNotFoundError):
                current.add(os.path.basename(folder_of(checkpoint, each)))
    made_here = re.compile(f"{CTRANSLATE2}-({'|'.join(QUANTIZATIONS)})-[0-9a-f]{{16}}")
    for name in os.listdir(logdir):
        if made_here.fullmatch(name) and name not in current:
            shutil.rmtree(os.path.join(logdir, name), ignore_errors=True)


def find_exported(
    logdir: str, which: Union[str, int] = "best", quantization: str = "float32"
) -> Optional[Tuple[str, str]]:
    """Return (checkpoint, its exported model); None if no export has been made.

    Args:
      logdir: the log directory.
      which: the checkpoint: see `manifests.find`.
      quantization: one of QUANTIZATIONS.
    """
    with contextlib.suppress(FileNotFoundError):
        for checkpoint in to_try(logdir, which)[:1]:
            folder = folder_of(checkpoint, quantization)
            if os.path.exists(os.path.join(folder, MODEL)):
                return checkpoint, folder
    return None


def open_exported(
    logdir: str,
    hp: Optional[HParams] = None,
    which: Union[str, int] = "best",
    n_best: int = 1,
    quantization: str = "float32",
) -> "FastTranslator":
    """Return a FastTranslator of a log directory.

    Args:
      logdir: the log directory.
      hp: the settings of the search; None: the saved ones.
      which: the checkpoint: see `manifests.find`.
      n_best: the number of translations of each line.
      quantization: one of QUANTIZATIONS.

    Raises:
      FileNotFoundError: no export has been made.
    """
    found = find_exported(logdir, which, quantization)
    if found is None:
        raise FileNotFoundError(
            f"{logdir}: expected a model exported for CTranslate2, {quantization}, of "
            f"the checkpoint {which!r}, got none; translate a line with --engine "
            f"{CTRANSLATE2}, which exports it"
        )
    return FastTranslator(found[1], hp or load(logdir), n_best)


def import_ctranslate2() -> Any:
    """Return the module ctranslate2.

    Raises:
      ValueError: it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise ValueError(
            f"expected the package ctranslate2, got none ({error}): "
            "pip install 'transformer-tf[fast]', with Python 3.10 or newer"
        ) from error
    return ctranslate2


def _in_a_thread(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function in another thread; return what it returns.

    Python handles signals in the main thread only, and not while CTranslate2 computes
    there.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(function, *args, **kwargs).result()


class FastTranslator(BaseTranslator):
    """Translates with a model that was exported for CTranslate2, on the CPU.

    Args:
      folder: the exported model, with its vocabulary.
      hp: the settings of the search.
      n_best: the number of translations of each line.

    Raises:
      ValueError: CTranslate2 is not installed, cannot open the model, lacks a rule of
        the search, or keeps fewer than `n_best` hypotheses.
    """

    def __init__(self, folder: str, hp: HParams, n_best: int = 1):
        if unsupported_search(hp):
            raise ValueError(
                f"{folder}: expected a search that {CTRANSLATE2} supports, got "
                f"{', '.join(unsupported_search(hp))}; change it, or use Translator"
            )
        super().__init__(load_vocabularies(folder), hp.max_source_length)
        refuse_n_best(n_best, hp)
        self._hp = hp
        self._n_best = n_best
        target = self.vocabularies.target
        self._ids = {
            piece: number
            for number, piece in enumerate(target.pieces(range(target.size)))
        }
        try:
            # One batch per core, in parallel: several threads for one batch would wait
            # for each other and, on a busy machine, for other processes.
            self._model = import_ctranslate2().Translator(
                folder, device="cpu", inter_threads=cores(), intra_threads=1
            )
        except RuntimeError as error:
            raise ValueError(
                f"{folder}: expected a model for CTranslate2, got one that cannot be "
                f"opened ({error}); remove the folder, and it will be exported again"
            ) from error

    def __enter__(self) -> "FastTranslator":
        return self

    def __exit__(self, *exception) -> None:
        self._model.unload_model()

    def translate(self, lines: Iterable[str]) -> List[List[Translation]]:
        """Translate lines, like `Translator.translate`.

        Args:
          lines: sentences. A line without pieces gets an empty translation; a line with
            more than `max_source_length` pieces is truncated.

        Returns:
          For each line, its n best translations, best first.
        """
        sources = self.encode(lines)
        translations = [[Translation("", 0.0)] * self._n_best for _ in sources]
        for i, hypotheses in self._search(sources).items():
            translations[i] = [
                self.translation([self._ids[piece] for piece in pieces], score)
                for score, pieces in hypotheses[: self._n_best]
            ]
        return translations

    def score_pieces(
        self, lines: Sequence[str], targets: Sequence[Sequence[str]]
    ) -> List[float]:
        """Return the scores of given translations, as `translate` would score them.

        Args:
          lines: sentences, each with at least one piece.
          targets: the pieces of the translation of each.

        Raises:
          ValueError: the numbers of lines and targets differ.
        """
        if len(lines) != len(targets):
            raise ValueError(
                f"score_pieces: expected {len(lines)} targets, one for each line, got "
                f"{len(targets)}"
            )
        vocabulary = self.vocabularies.source
        pieces = [vocabulary.pieces(ids) for ids in vocabulary.encode_lines(lines)]
        scored = self._log_probs([each[: self._most] for each in pieces], targets)
        return [
            self._scored((log_prob, list(target)))[0]
            for log_prob, target in zip(scored, targets)
        ]

    def _log_probs(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
    ) -> List[float]:
        """Return the log-probability of each target, including its end."""
        scored = _in_a_thread(
            self._model.score_batch,
            list(sources),
            list(targets),
            max_batch_size=self._hp.decode_batch_size,
            max_input_length=0,
        )
        return [sum(each.log_probs) for each in scored]

    def _search(
        self, sources: Sequence[Sequence[int]]
    ) -> Dict[int, List[Tuple[float, List[str]]]]:
        """Return the hypotheses (score, pieces) of each line with pieces, best first.

        CTranslate2 has one length limit for all lines. Lines whose hypotheses exceed
        their own limit are translated again, up to that limit.
        """
        pieces = {
            i: self.vocabularies.source.pieces(ids)
            for i, ids in enumerate(sources)
            if ids
        }
        more = self._hp.max_extra_length
        most = {i: len(each) + more for i, each in pieces.items()}
        found = self._found(pieces, max(most.values(), default=0) + 1)
        over: Dict[int, Dict[int, List[str]]] = {}  # limit → lines that exceed it
        for i, hypotheses in found.items():
            if max(len(each) for _, each in hypotheses) > most[i]:
                over.setdefault(most[i], {})[i] = pieces[i]
        for limit, lines in over.items():
            found.update(self._with_ends(pieces, self._found(lines, limit), limit))
        return {i: sorted(map(self._scored, each))[::-1] for i, each in found.items()}

    def _found(self, pieces: Dict[int, List[str]], limit: int) -> Dict[int, List]:
        """Return the (log-probability, pieces) that CTranslate2 finds for each line.

        Args:
          pieces: the pieces of each line.
          limit: the most pieces of a translation; one with this many may lack its end.
        """
        a_core = -(-len(pieces) // cores())  # lines per core, so that no core is idle
        results = _in_a_thread(
            self._model.translate_batch,
            list(pieces.values()),
            beam_size=self._hp.hypotheses,
            num_hypotheses=self._hp.hypotheses,
            length_penalty=0,
            max_batch_size=max(1, min(self._hp.decode_batch_size, a_core)),
            return_scores=True,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(1, limit),
        )
        return {
            i: list(zip(each.scores, each.hypotheses))
            for i, each in zip(pieces, results)
        }

    def _with_ends(
        self, pieces: Dict[int, List[str]], found: Dict[int, List], limit: int
    ) -> Dict[int, List]:
        """Return the hypotheses; add the probability of the end to truncated ones.

        Args:
          pieces: the pieces of each line.
          found: what `_found` returns.
          limit: the number of pieces in a truncated hypothesis.
        """
        pairs = [
            (i, target)
            for i, hypotheses in found.items()
            for _, target in hypotheses
            if len(target) == limit
        ]
        sums = iter(
            self._log_probs(
                [pieces[i] for i, _ in pairs], [target for _, target in pairs]
            )
        )
        return {
            i: [
                (next(sums) if len(target) == limit else score, target)
                for score, target in hypotheses
            ]
            for i, hypotheses in found.items()
        }

    def _scored(self, hypothesis: Tuple[float, List[str]]) -> Tuple[float, List[str]]:
        """Return a hypothesis with our score, which has the length penalty applied."""
        log_prob, pieces = hypothesis
        length = len(pieces) + 1  # including the end
        return log_prob / length_penalty(length, self._hp.length_penalty), pieces
