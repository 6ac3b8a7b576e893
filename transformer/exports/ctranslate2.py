"""CTranslate2: a checkpoint → a model that CTranslate2 opens; lines → translations.

    from transformer.exports.ctranslate2 import open_exported

    with open_exported("logs/sample") as translator:
        [[best]] = translator.translate(["Der Hund schläft."])

The first half of this file is the fast engine. `FastTranslator` finds and scores
translations as our beam search does, but without TensorFlow, whose import takes
seconds: whatever needs TensorFlow is imported by the functions of the second half, the
export. `find_or_export` makes the export of a checkpoint next to it, and compares it
with TensorFlow once.
"""

import concurrent.futures
import contextlib
import ctypes
import dataclasses
import itertools
import os
import threading
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy as np

from transformer.hparams import HParams, has_settings, load, refuse_n_best
from transformer.length_penalty import length_penalty
from transformer.logdir.manifests import find_damage, list_candidates, write_manifest
from transformer.logdir.names import MANIFEST, export_folder, export_pattern
from transformer.runtime import files
from transformer.runtime.devices import count_cores
from transformer.runtime.errors import (
    EngineError,
    ExportDamaged,
    ExportDiffers,
    ExportNotFound,
    ExportNotWritable,
    FileError,
    SettingsError,
    missing_package,
)
from transformer.runtime.pool import refuse_fork
from transformer.runtime.progress import format_count
from transformer.text.data_folder import text_paths
from transformer.text.lines import read_stored_lines
from transformer.text.translations import BaseTranslator, Translation, as_lines
from transformer.text.vocabulary import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    UNK,
    copy_vocabularies,
    load_vocabularies,
)

if TYPE_CHECKING:
    from transformer.exports.card import Exported

TENSORFLOW = "tensorflow"
CTRANSLATE2 = "ctranslate2"
ENGINES = (TENSORFLOW, CTRANSLATE2)
QUANTIZATIONS = ("float32", "int8")
MODEL = "model.bin"  # a file in each exported model
CHECKSUMS = MODEL + MANIFEST  # its manifest, which exports of earlier versions lack
MAX_POSITIONS = 1100  # of an exported model; our own sinusoids have no limit
# An export is compared with TensorFlow on this many lines of dev. Scores that differ by
# less than TIE count as equal: either of the two translations may be found first.
LINES_COMPARED = 200
TIE = 1e-3

# Which engine


def list_unsupported(hp: HParams) -> List[str]:
    """List the settings of the search with which CTranslate2 translates differently."""
    is_requested = {
        f"search {hp.search}": hp.search not in ("beam", "greedy"),
        "min_length": hp.min_length > 0,
        "no_repeat_ngram": hp.no_repeat_ngram > 0,
        "repetition_penalty": hp.repetition_penalty != 1,
        "keep_open": hp.keep_open,
        f"max_source_length + max_extra_length of {MAX_POSITIONS:,} or more": (
            hp.max_source_length + hp.max_extra_length >= MAX_POSITIONS
        ),
    }
    return [name for name, is_so in is_requested.items() if is_so]


def choose_engine(
    engine: str,
    quantization: str,
    hp: HParams,
    warn: Callable[[str], None],
    needs: Optional[Dict[str, bool]] = None,
) -> str:
    """Choose the engine: TensorFlow if the fast one cannot do what is requested.

    Args:
      engine, quantization: what is requested.
      hp: the settings of the search.
      warn: function of a text; called if another engine is returned.
      needs: name of a feature that the fast engine lacks → whether it is requested.

    Returns:
      TENSORFLOW or CTRANSLATE2.

    Raises:
      SettingsError: a quantization is requested for TensorFlow.
    """
    if engine == TENSORFLOW and quantization != QUANTIZATIONS[0]:
        raise SettingsError(
            f"quantization {quantization}: expected the engine {CTRANSLATE2} too, got "
            f"{engine}"
        )
    is_requested = {
        **(needs or {}),
        **dict.fromkeys(list_unsupported(hp), True),
        f"decode_precision {hp.decode_precision}": hp.decode_precision != "float32",
        "deterministic": hp.deterministic,
    }
    lacking = [name for name, is_so in is_requested.items() if is_so]
    if engine == CTRANSLATE2 and lacking:
        warn(
            f"the engine {engine} does not support {', '.join(lacking)}: TensorFlow is "
            "used instead"
        )
        return TENSORFLOW
    return engine


# The export of a checkpoint, next to it


def export_path(checkpoint: str, quantization: str) -> str:
    """Return the path of the export of a checkpoint, whether it exists or not.

    Its name contains the checksum of the manifest, which covers the weights.

    Args:
      checkpoint: its path, without file extensions.
      quantization: one of QUANTIZATIONS.
    """
    checksum = files.sha256_of(checkpoint + MANIFEST)
    return export_folder(checkpoint, CTRANSLATE2, quantization, checksum)


def remove_outdated(logdir: str) -> None:
    """Remove the exports of checkpoints that no longer exist."""
    current: Set[str] = set()
    for checkpoint in list_candidates(logdir):
        for quantization in QUANTIZATIONS:
            with contextlib.suppress(FileNotFoundError):
                current.add(os.path.basename(export_path(checkpoint, quantization)))
    pattern = export_pattern(CTRANSLATE2, QUANTIZATIONS)
    for name in os.listdir(logdir):
        if pattern.fullmatch(name) and name not in current:
            files.remove_tree(os.path.join(logdir, name))


def find_exported(
    logdir: str, which: Union[str, int] = "best", quantization: str = "float32"
) -> Optional[Tuple[str, str]]:
    """Find the export of a checkpoint.

    Args:
      logdir: the log directory.
      which: the checkpoint: see `manifests.find_checkpoint`.
      quantization: one of QUANTIZATIONS.

    Returns:
      (checkpoint, its export); None if no export has been made.
    """
    with contextlib.suppress(FileNotFoundError):
        for checkpoint in list_candidates(logdir, which)[:1]:
            folder = export_path(checkpoint, quantization)
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
    """Open the export of a checkpoint of a log directory.

    Args:
      logdir: the log directory.
      hp: the settings of the search; None: the saved ones.
      which: the checkpoint: see `manifests.find_checkpoint`.
      n_best: the number of translations of each line.
      quantization: one of QUANTIZATIONS.

    Raises:
      ExportNotFound: no export has been made.
    """
    exported = find_exported(logdir, which, quantization)
    if exported is None:
        raise ExportNotFound(
            f"{logdir}: there is no export for CTranslate2, {quantization}, of the "
            f"checkpoint {which!r}"
        )
    checkpoint, folder = exported
    return FastTranslator(folder, hp or load(logdir), n_best, checkpoint)


def import_ctranslate2() -> Any:
    """Import the module ctranslate2.

    Raises:
      PackageNotInstalled: it is missing.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise missing_package("ctranslate2", "fast", error) from error
    return ctranslate2


# The fast engine


def _run_outside_main_thread(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function of CTranslate2 outside the main thread; return its result.

    Python handles signals in the main thread only, and not while CTranslate2 computes
    there.

    Raises:
      EngineError: it failed.
    """
    try:
        if threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            return executor.submit(function, *args, **kwargs).result()
    except (RuntimeError, ValueError) as error:
        raise EngineError(f"{CTRANSLATE2} failed: {error}") from error


class Hypothesis(NamedTuple):
    """A translation that CTranslate2 found."""

    value: float  # its log-probability; or its score, with the length penalty applied
    pieces: List[str]  # without the end


def refuse_damaged(folder: str) -> None:
    """Raise ExportDamaged unless the files of an export are those that were written.

    CTranslate2 translates with damaged weights, wrongly, and without a word.

    Args:
      folder: the exported model; if an earlier version wrote it, without a manifest, it
        is only checked that its files are files.
    """
    path = os.path.join(folder, CHECKSUMS)
    damage = None
    if os.path.lexists(path):
        damage = find_damage(path, MODEL)
    try:
        for name in os.listdir(folder):
            files.refuse_irregular(os.path.join(folder, name))
    except (OSError, FileError) as error:
        damage = damage or str(error)
    if damage:
        raise _damaged_export(folder, damage)


def _damaged_export(folder, reason) -> ExportDamaged:
    """Make the exception for an export that cannot be used."""
    return ExportDamaged(
        f"{folder}: expected a model exported for CTranslate2, got a damaged one "
        f"({reason}); remove the folder, and export the model again",
        folder,
    )


def _keep_in_forks(reference: Callable[[], Any]) -> None:
    """Let a fork of this process never delete a model of CTranslate2.

    CTranslate2 would wait for the model's threads, which a fork does not have: it would
    not even end.

    Args:
      reference: a weak reference to the model.
    """

    def keep():
        model = reference()
        if model is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(model))

    os.register_at_fork(after_in_child=keep)


class FastTranslator(BaseTranslator):
    """Translates with a model that was exported for CTranslate2, on the CPU.

    Args:
      folder: the exported model, with its vocabulary.
      hp: the settings of the search.
      n_best: the number of translations of each line.
      checkpoint: the path of the checkpoint that was exported, if it is known.

    Raises:
      ExportDamaged: a file of the model is damaged or missing.
      EngineError: CTranslate2 is not installed, or lacks a rule of the search.
      SettingsError: the search keeps fewer than `n_best` hypotheses.
    """

    engine = CTRANSLATE2

    def __init__(self, folder: str, hp: HParams, n_best: int = 1, checkpoint: str = ""):
        if list_unsupported(hp):
            raise EngineError(
                f"{folder}: expected a search that {CTRANSLATE2} supports, got "
                f"{', '.join(list_unsupported(hp))}; change it, or use Translator"
            )
        refuse_damaged(folder)
        super().__init__(load_vocabularies(folder), hp.max_source_length)
        refuse_n_best(n_best, hp)
        self.hp = hp
        self.folder = folder
        self.n_best = n_best
        self._process = os.getpid()
        self.checkpoints = [checkpoint]
        target = self.vocabularies.target
        self._ids = {
            piece: i for i, piece in enumerate(target.pieces(range(target.size)))
        }
        try:
            # One batch per core, in parallel: several threads for one batch would wait
            # for each other and, on a busy machine, for other processes.
            self._model = import_ctranslate2().Translator(
                folder, device="cpu", inter_threads=count_cores(), intra_threads=1
            )
        except (RuntimeError, ValueError, LookupError, MemoryError) as error:
            raise _damaged_export(folder, f"it cannot be opened: {error}") from error
        _keep_in_forks(weakref.ref(self._model))

    def __enter__(self) -> "FastTranslator":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Unload the model; afterwards, this object cannot translate."""
        self._model.unload_model()

    def translate(
        self, lines: Iterable[str], all_cores: bool = True
    ) -> List[List[Translation]]:
        """Translate lines, like `Translator.translate`.

        Args:
          lines: sentences. A line without pieces gets an empty translation; a line with
            more than `max_source_length` pieces is truncated.
          all_cores: whether to compute on each core, in a batch of its own. Several
            threads that call this at the same time compute faster without it.

        Returns:
          For each line, its n best translations, best first.
        """
        sources = self.encode(lines)
        translations = [[Translation("", 0.0)] * self.n_best for _ in sources]
        cores = count_cores() if all_cores else 1
        for i, hypotheses in self._search(sources, cores).items():
            limit = len(sources[i]) + self.hp.max_extra_length
            try:
                translations[i] = [
                    self.translation(
                        [self._ids[piece] for piece in pieces], score, limit
                    )
                    for score, pieces in hypotheses[: self.n_best]
                ]
            except KeyError as error:
                reason = f"{error} is not in its vocabulary"
                raise _damaged_export(self.folder, reason) from error
        self.count_truncated(translations)
        return translations

    def score_pieces(
        self, lines: Sequence[str], targets: Sequence[Sequence[str]]
    ) -> List[float]:
        """Score given translations as `translate` would score them.

        Args:
          lines: sentences, each with at least one piece.
          targets: the pieces of the translation of each.

        Raises:
          SettingsError: the numbers of lines and targets differ.
        """
        if len(lines) != len(targets):
            raise SettingsError(
                f"score_pieces: expected {format_count(len(lines), 'target')}, one for "
                f"each line, got {len(targets):,}"
            )
        vocabulary = self.vocabularies.source
        sources = [
            vocabulary.pieces(ids[: self.hp.max_source_length])
            for ids in vocabulary.encode_lines(as_lines(lines))
        ]
        log_probs = self._log_probs(sources, targets)
        return [
            self._apply_penalty(Hypothesis(log_prob, list(target))).value
            for log_prob, target in zip(log_probs, targets)
        ]

    def _log_probs(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
    ) -> List[float]:
        """Compute the log-probability of each target, including its end."""
        refuse_fork(self._process)
        results = _run_outside_main_thread(
            self._model.score_batch,
            list(sources),
            list(targets),
            max_batch_size=self.hp.decode_batch_size,
            max_input_length=0,
        )
        return [sum(result.log_probs) for result in results]

    def _search(
        self, sources: Sequence[Sequence[int]], cores: int
    ) -> Dict[int, List[Hypothesis]]:
        """Search for the translations of each line with pieces.

        CTranslate2 has one length limit for all lines. Lines whose hypotheses exceed
        their own limit are translated again, up to that limit.

        Args:
          sources: the ids of each line.
          cores: on how many to compute.

        Returns:
          Index of a line → its hypotheses with their scores, best first.
        """
        pieces = {
            i: self.vocabularies.source.pieces(ids)
            for i, ids in enumerate(sources)
            if ids
        }
        limits = {
            i: len(source) + self.hp.max_extra_length for i, source in pieces.items()
        }
        limit = max(limits.values(), default=0) + 1
        hypotheses = self._search_to(pieces, limit, cores)
        too_long: Dict[int, Dict[int, List[str]]] = {}  # limit → lines that exceed it
        for i, n_best in hypotheses.items():
            if max(len(hypothesis.pieces) for hypothesis in n_best) > limits[i]:
                too_long.setdefault(limits[i], {})[i] = pieces[i]
        for limit, lines in too_long.items():
            hypotheses.update(self._add_ends(lines, limit, cores))
        return {
            i: sorted(map(self._apply_penalty, n_best))[::-1]
            for i, n_best in hypotheses.items()
        }

    def _search_to(
        self, pieces: Dict[int, List[str]], limit: int, cores: int
    ) -> Dict[int, List[Hypothesis]]:
        """Search with CTranslate2, up to one limit for all lines.

        Args:
          pieces: index of a line → its pieces.
          limit: the largest number of pieces of a translation; one with this many may
            lack its end.
          cores: on how many to compute.

        Returns:
          Index of a line → its hypotheses with their log-probabilities.
        """
        per_core = -(-len(pieces) // cores)  # so that no core is idle
        refuse_fork(self._process)
        results = _run_outside_main_thread(
            self._model.translate_batch,
            list(pieces.values()),
            beam_size=self.hp.num_hypotheses,
            num_hypotheses=self.hp.num_hypotheses,
            length_penalty=0,
            max_batch_size=max(1, min(self.hp.decode_batch_size, per_core)),
            return_scores=True,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(1, limit),
        )
        return {
            i: list(map(Hypothesis, result.scores, result.hypotheses))
            for i, result in zip(pieces, results)
        }

    def _add_ends(
        self, pieces: Dict[int, List[str]], limit: int, cores: int
    ) -> Dict[int, List[Hypothesis]]:
        """Search up to a limit; add the probability of the end where it was cut off.

        Args:
          pieces: index of a line → its pieces.
          limit: the number of pieces of a hypothesis that was cut off.
          cores: on how many to compute.
        """
        hypotheses = self._search_to(pieces, limit, cores)
        without_end = [
            (pieces[i], hypothesis.pieces)
            for i, n_best in hypotheses.items()
            for hypothesis in n_best
            if len(hypothesis.pieces) == limit
        ]
        log_probs = iter(
            self._log_probs(
                [source for source, _ in without_end],
                [target for _, target in without_end],
            )
        )
        return {
            i: [
                hypothesis._replace(value=next(log_probs))
                if len(hypothesis.pieces) == limit
                else hypothesis
                for hypothesis in n_best
            ]
            for i, n_best in hypotheses.items()
        }

    def _apply_penalty(self, hypothesis: Hypothesis) -> Hypothesis:
        """Replace the log-probability of a hypothesis by our score."""
        length = len(hypothesis.pieces) + 1  # including the end
        penalty = length_penalty(
            length, self.hp.length_penalty, self.hp.length_penalty_form
        )
        return hypothesis._replace(value=hypothesis.value / penalty)


# The export


def refuse_unsupported(hp: HParams) -> None:
    """Raise EngineError for a model that CTranslate2 cannot represent."""
    from transformer.blocks.positions import LEARNED, choose_positions

    dialect = hp.resolved_dialect
    is_used = {
        "projection_relu": dialect.projection_relu,
        "masks_from activations": dialect.masks_from != "ids",
        "learned positions": choose_positions(hp.positions, dialect) == LEARNED,
        "norms neither before each sub-layer and at the end, nor after each": (
            dialect.norm,
            dialect.final_norm,
        )
        not in (("before", True), ("after", False)),
        "max_relative_position": hp.max_relative_position > 0,
        "proximity_bias": hp.proximity_bias,
        "d_k": hp.key_units != hp.d_model,
        "d_v": hp.value_units != hp.d_model,
    }
    unsupported = [name for name, is_so in is_used.items() if is_so]
    if unsupported:
        raise EngineError(
            f"dialect {hp.dialect}: expected a model that CTranslate2 can represent, "
            f"got {', '.join(unsupported)}"
        )


def read_variables(hp: HParams, checkpoint: str) -> Dict[str, np.ndarray]:
    """Read the variables of a checkpoint, without those of Adam: name → array.

    Raises:
      CheckpointError: the variables do not fit the settings.
    """
    from transformer.logdir import checkpoints
    from transformer.model import variable_shapes

    arrays = checkpoints.read_variables(checkpoint)
    shapes = {name: array.shape for name, array in arrays.items()}
    checkpoints.refuse_other_shapes(checkpoint, shapes, variable_shapes(hp))
    return {name: array for name, array in arrays.items() if "Adam" not in name}


def sinusoids(encoding: str, num_units: int) -> np.ndarray:
    """Compute the position encodings: float32 [MAX_POSITIONS, D].

    Args:
      encoding: a key of POSITIONS.
      num_units: int, D.
    """
    import tensorflow.compat.v1 as tf

    from transformer.blocks.positions import POSITIONS

    with tf.Graph().as_default(), tf.Session() as session:
        positions = tf.range(MAX_POSITIONS, dtype=tf.float64)
        return session.run(
            tf.cast(POSITIONS[encoding](positions, num_units), tf.float32)
        )


class SpecWriter:
    """Writes our variables into CTranslate2's specification of a model."""

    def __init__(self, hp: HParams, variables: Dict[str, np.ndarray]):
        from transformer.blocks.positions import choose_positions

        self.hp = hp
        self.dialect = hp.resolved_dialect
        self.variables = variables
        encoding = choose_positions(hp.positions, self.dialect)
        self.positions = sinusoids(encoding, hp.d_model)

    def write_model(self, spec: Any) -> None:
        """Write a whole TransformerSpec."""
        from transformer.model import table_scope

        dialect = self.dialect
        names = ["encoder", "decoder"]
        tables = [
            self.variables[f"{table_scope(self.hp, name)}/lookup_table"]
            for name in names
        ]
        for name, stack, table in zip(names, (spec.encoder, spec.decoder), tables):
            embeddings = stack.embeddings
            (embeddings[0] if name == "encoder" else embeddings).weight = table
            stack.scale_embeddings = True
            stack.position_encodings.encodings = self.positions
            for i, layer in enumerate(stack.layer):
                self.write_block(layer, f"{name}/block_{i}", name == "decoder")
            if dialect.final_norm:
                self.write_norm(stack.layer_norm, f"{name}/ln")
        if dialect.target_space:  # added at every position, like an encoding
            spec.encoder.position_encodings.encodings = (
                self.positions + self.variables["encoder/target_space"]
            )
        spec.decoder.start_from_zero_embedding = dialect.begins_with_zeros
        projection = spec.decoder.projection
        if dialect.tied_embeddings:
            projection.weight = tables[1].copy()
            if dialect.padding_row_is_zero:
                projection.weight[0] = 0
        else:
            self.write_dense(projection, ["decoder/output"])

    def write_block(self, layer: Any, scope: str, has_memory: bool) -> None:
        """Write one block."""
        attentions = {"self_attention": (layer.self_attention, [["q", "k", "v"]])}
        if has_memory:
            attentions["cross_attention"] = layer.attention, [["q"], ["k", "v"]]
        for name, (attention, groups) in attentions.items():
            for linear, group in zip(attention.linear, groups):
                scopes = [f"{scope}/{name}/{projection}" for projection in group]
                self.write_dense(linear, scopes)
            if self.dialect.output_projection:
                self.write_dense(attention.linear[-1], [f"{scope}/{name}/o"])
            else:
                attention.linear[-1].weight = np.eye(self.hp.d_model, dtype=np.float32)
            self.write_norm(attention.layer_norm, f"{scope}/{name}/ln")
        self.write_dense(layer.ffn.linear_0, [f"{scope}/feedforward/inner"])
        self.write_dense(layer.ffn.linear_1, [f"{scope}/feedforward/outer"])
        self.write_norm(layer.ffn.layer_norm, f"{scope}/feedforward/ln")

    def write_dense(self, linear: Any, scopes: Sequence[str]) -> None:
        """Write dense layers of one input as one, concatenated: [out, in]."""
        kernels = [self.variables[f"{scope}/kernel"] for scope in scopes]
        linear.weight = np.ascontiguousarray(np.concatenate(kernels, axis=1).T)
        if f"{scopes[0]}/bias" in self.variables:
            biases = [self.variables[f"{scope}/bias"] for scope in scopes]
            linear.bias = np.concatenate(biases)

    def write_norm(self, norm: Any, scope: str) -> None:
        """Write a layer normalization."""
        norm.gamma = self.variables[f"{scope}/gamma"]
        norm.beta = self.variables[f"{scope}/beta"]


def write(hp: HParams, checkpoint: str, out: str, quantization: str) -> str:
    """Write a folder for `ctranslate2.Translator`, including our vocabulary files.

    Args:
      hp: the settings.
      checkpoint: its path, without file extensions.
      out: the folder; a model already exported to it is replaced.
      quantization: "float32" or "int8".

    Returns:
      "": there is nothing to report.

    Raises:
      EngineError: CTranslate2 is not installed, or cannot represent the model.
    """
    refuse_unsupported(hp)
    import_ctranslate2()
    from ctranslate2 import converters, specs

    logdir = os.path.dirname(checkpoint)
    dialect = hp.resolved_dialect
    vocabularies = load_vocabularies(logdir)

    class Converter(converters.Converter):
        def _load(self):
            spec = specs.TransformerSpec.from_config(
                (hp.encoder_blocks, hp.decoder_blocks),
                hp.num_heads,
                pre_norm=dialect.norm == "before",
            )
            SpecWriter(hp, read_variables(hp, checkpoint)).write_model(spec)
            source = vocabularies.source.pieces(range(vocabularies.source.size))
            target = vocabularies.target.pieces(range(vocabularies.target.size))
            spec.register_source_vocabulary(source)
            spec.register_target_vocabulary(target)
            bos = target[vocabularies.target.bos]
            spec.config.unk_token = target[UNK]
            spec.config.eos_token = target[vocabularies.target.eos]
            spec.config.bos_token = bos
            spec.config.decoder_start_token = bos
            spec.config.add_source_eos = True
            spec.config.add_attribute("layer_norm_epsilon", dialect.norm_epsilon)
            return spec

    Converter().convert(out, quantization=quantization, force=True)
    copy_vocabularies(logdir, out)
    names = sorted(os.listdir(out), key=lambda name: (name == MODEL, name))
    paths = [os.path.join(out, name) for name in names]
    write_manifest(os.path.join(out, CHECKSUMS), paths)
    return ""


def describe_export(hp: HParams, name: str, quantization: str) -> "Exported":
    """Describe an export for its model card.

    With greedy search, the call on the card gives our translations. The beam search of
    CTranslate2 drops hypotheses that end outside the K best continuations, so some
    lines may differ.

    Args:
      hp: the settings.
      name: the name of the folder.
      quantization: "float32" or "int8".
    """
    from transformer.exports.card import Exported

    options = (
        f"beam_size={hp.num_hypotheses}, num_hypotheses={hp.num_hypotheses}, "
        f"length_penalty=0, min_decoding_length={hp.min_length}, "
        f"no_repeat_ngram_size={hp.no_repeat_ngram}, "
        f"repetition_penalty={hp.repetition_penalty:g}, max_input_length=0, "
        f"max_decoding_length=max(map(len, pieces)) + {hp.max_extra_length}, "
        "return_scores=True"
    )
    model = JOINT_MODEL if hp.joint_vocab else SEPARATE_MODELS[0]
    # `length_penalty`, of a length that counts the end
    base = {"wu": "((6 + len(pair[1])) / 6)", "power": "(1 + len(pair[1]))"}
    rank = f"pair[0] / {base[hp.length_penalty_form]} ** {hp.length_penalty:g}"
    with_package = (
        "`transformer.exports.ctranslate2.FastTranslator` opens this folder. "
    )
    usage = [
        ("" if list_unsupported(hp) else with_package)
        + "With CTranslate2 alone, `pieces` holds a list of strings for each line: its "
        "pieces in the source vocabulary of this folder, without the end-of-sentence "
        "piece. If that is a SentencePiece model:",
        "",
        "```python",
        "import ctranslate2",
        "import sentencepiece",
        "",
        f"folder = {name!r}",
        f"model = sentencepiece.SentencePieceProcessor(model_file=folder + '/{model}')",
        "pieces = model.encode(lines, out_type=str)",
        f"results = ctranslate2.Translator(folder).translate_batch(pieces, {options})",
        "best = [max(zip(x.scores, x.hypotheses), key=lambda pair: "
        f"{rank})[1] for x in results]",
        "```",
        "",
        "The last line is the length penalty of the training program; CTranslate2's "
        "own `length_penalty` uses another formula, with which more lines differ.",
    ]
    limits = [f"It has {MAX_POSITIONS:,} positions: longer sentences are refused."]
    if quantization != "float32":
        limits.append("Its weights are 8-bit integers: some translations differ.")
    return Exported(f"for CTranslate2, {quantization}", usage, limits)


def find_or_export(
    hp: HParams,
    checkpoint: str,
    quantization: str,
    translate: Callable[[List[str]], List[List[Translation]]],
    warn: Callable[[str], None],
) -> Optional[str]:
    """Find the export of a checkpoint; make and compare a missing one.

    Args:
      hp: the settings.
      checkpoint: its path, without file extensions.
      quantization: "float32" or "int8".
      translate: function of lines that translates them with TensorFlow.
      warn: function of a text; called if CTranslate2 cannot represent the model, if the
        export cannot be compared, and if it translates lines differently.

    Returns:
      The folder; None if CTranslate2 cannot represent the model.

    Raises:
      PackageNotInstalled: CTranslate2 is missing.
      ExportDiffers: it gives other scores.
      ExportNotWritable: the log directory cannot be written.
    """
    from transformer.exports import card

    try:
        refuse_unsupported(hp)
    except EngineError as error:
        warn(f"the engine {CTRANSLATE2}: {error}: TensorFlow is used instead")
        return None
    logdir = os.path.dirname(checkpoint) or os.curdir
    folder = export_path(checkpoint, quantization)
    if os.path.exists(os.path.join(folder, MODEL)):
        return folder
    if os.path.islink(folder):
        raise ExportNotWritable(
            f"the engine {CTRANSLATE2}: expected a folder to write the export to, got "
            f"the link {folder}, which leads elsewhere"
        )
    if not os.access(logdir, os.W_OK | os.X_OK):
        raise ExportNotWritable(
            f"the engine {CTRANSLATE2}: there is no permission to write the export "
            f"{folder}"
        )
    files.remove_tree(folder)  # by its name ours, but without a model
    with files.new_folder(folder, "logdir") as out:
        write(hp, checkpoint, out, quantization)
        _compare(hp, out, quantization, translate, warn)
        # The saved search, not the one of this translator.
        saved = load(logdir) if has_settings(logdir) else hp
        saved = dataclasses.replace(saved, data=hp.data)
        exported = describe_export(saved, os.path.basename(folder), quantization)
        card.write(saved, checkpoint, out, exported)
    remove_outdated(logdir)
    return folder


def _compare(hp, folder, quantization, translate, warn) -> None:
    """Compare an exported model with TensorFlow on lines of the dev set.

    The models are equal if they give the same scores to the translations by TensorFlow.
    Even then, the beam search of CTranslate2 finds other translations for some lines,
    because it drops hypotheses that end outside the K best.

    Raises:
      ExportDiffers: the exported model has float32 weights, but gives other scores.
    """
    try:
        path, _ = text_paths(hp.data, "dev")
        lines = list(itertools.islice(read_stored_lines(path), LINES_COMPARED))
    except (OSError, ValueError):
        warn(
            f"the export for {CTRANSLATE2} was not compared with TensorFlow: there is "
            f"no dev set in {hp.data}"
        )
        return
    with FastTranslator(folder, hp) as exported:
        rows = [
            (line, expected, actual)
            for line, [expected, *_], [actual, *_] in zip(
                lines, translate(lines), exported.translate(lines)
            )
            if expected.pieces
        ]
        scores = exported.score_pieces(
            [line for line, _, _ in rows], [expected.pieces for _, expected, _ in rows]
        )
    wrong = [
        f"{line!r:.80} → {expected.text!r:.80}: {score:.3f}, not {expected.score:.3f}"
        for (line, expected, _), score in zip(rows, scores)
        if abs(score - expected.score) > TIE
    ]
    if wrong and quantization == QUANTIZATIONS[0]:
        raise ExportDiffers(
            f"the engine {CTRANSLATE2}: expected the scores of TensorFlow, got "
            f"different ones for {len(wrong)} of {len(rows)} lines of dev "
            f"({'; '.join(wrong[:3])})"
        )
    different = sum(
        expected.text != actual.text and abs(expected.score - actual.score) > TIE
        for _, expected, actual in rows
    )
    if different:
        warn(
            f"the engine {CTRANSLATE2}, {quantization}: {different} of {len(rows)} "
            "lines of dev are translated differently than by TensorFlow"
        )
