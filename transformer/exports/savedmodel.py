"""SavedModel: a checkpoint → a model for TensorFlow Serving, with its search.

    out/1/saved_model.pb, variables/     what TensorFlow Serving opens
    out/1/assets.extra/                  requests that it answers as it starts
    out/spm.model, README.md             the vocabulary, the model card

It has two signatures, for any number of sentences:

* `ids`: ids int32 [N, S], sentences with EOS, padded with 0 → ids [N, T], score [N];
* `translate`: text string [N] → text [N], score [N]. An op of tensorflow-text runs
  SentencePiece in the graph; without that package, and in TensorFlow 1.15, this
  signature is missing.
"""

import collections
import functools
import json
import os
import shlex
import urllib.parse
from typing import Any, Dict, List, Sequence

import tensorflow.compat.v1 as tf
from google.protobuf import descriptor_pb2, proto_builder

from transformer.decoding import Hypotheses
from transformer.exports.card import Exported
from transformer.hparams import FIELDS, HParams, keeps_beam, search_settings
from transformer.logdir import checkpoints
from transformer.model import Transformer
from transformer.runtime.errors import ExportDamaged, SettingsError
from transformer.runtime.files import read_file
from transformer.runtime.sessions import Session, make_session
from transformer.runtime.versions import IS_TENSORFLOW_1
from transformer.text.batches import pad_with_end
from transformer.text.lines import DISPLAY_MARKS
from transformer.text.translations import BaseTranslator, Translation
from transformer.text.vocabulary import (
    EOS,
    PAD,
    Vocabularies,
    Vocabulary,
    copy_vocabularies,
    load_vocabularies,
)
from transformer.translation_graph import make_search_options, search_from_memory

VERSION = "1"  # TensorFlow Serving serves the highest version
IDS = "ids"
TRANSLATE = "translate"
# Settings of the search that the model card names unless they have their defaults.
RULES = (
    "length_penalty_form",
    "min_length",
    "no_repeat_ngram",
    "repetition_penalty",
    "keep_open",
    "temperature",
    "top_k",
    "top_p",
)
WARM_UP = os.path.join("assets.extra", "tf_serving_warmup_requests")


def write(hp: HParams, checkpoint: str, out: str, quantization: str) -> str:
    """Write a folder for TensorFlow Serving, including our vocabulary files.

    Args:
      hp: the settings, including those of the search.
      checkpoint: its path, without file extensions.
      out: a new folder.
      quantization: "float32".

    Returns:
      Why there is no signature `translate`; "" if there is one.

    Raises:
      SettingsError: `quantization` is not "float32".
    """
    if quantization != "float32":
        raise SettingsError(
            f"quantization: expected float32, the only one for a SavedModel, got "
            f"{quantization}"
        )
    logdir = os.path.dirname(checkpoint)
    vocabularies = load_vocabularies(logdir)
    options = make_search_options(hp, vocabularies)
    remark = explain_missing_text(vocabularies)
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(hp.seed)
        model = Transformer(hp)
        signatures = {IDS: _create_ids_signature(hp, model, options)}
        if not remark:
            signatures[TRANSLATE] = _create_text_signature(
                hp, model, options, vocabularies
            )
        signatures["serving_default"] = list(signatures.values())[-1]
        with make_session(graph, deterministic=hp.deterministic) as session:
            checkpoints.restore(session, checkpoints.make_saver(), checkpoint)
            builder = tf.saved_model.Builder(os.path.join(out, VERSION))
            builder.add_meta_graph_and_variables(
                session, [tf.saved_model.SERVING], signature_def_map=signatures
            )
            builder.save()
    write_warm_up(os.path.join(out, VERSION), vocabularies, bool(remark))
    copy_vocabularies(logdir, out)
    return remark


def describe_export(
    hp: HParams, name: str, quantization: str, has_text: bool = True
) -> Exported:
    """Describe an export for its model card.

    Args:
      hp: the settings.
      name: the name of the folder.
      quantization: "float32".
      has_text: whether it has the signature for text.
    """
    quoted = shlex.quote(name)
    request = {"signature_name": IDS, "instances": [[5, 6, EOS]]}
    signatures = (
        f"The signature `{IDS}` takes ids of the vocabulary beside this file, each "
        f"sentence with its end (`</s>`), padded with {PAD}, and gives ids and score."
    )
    if has_text:
        request = {"signature_name": TRANSLATE, "instances": ["TEXT"]}
        signatures = (
            "In Python, `import tensorflow_text` comes before `tf.saved_model.load`. "
            f"The signature `{TRANSLATE}` takes text and gives text and score. "
            + signatures
        )
    usage = [
        "```",
        "docker run --rm --publish 8501:8501 --env MODEL_NAME="
        f'{quoted} --volume "$PWD"/{quoted}:/models/{quoted} tensorflow/serving',
        f"curl http://localhost:8501/v1/models/{urllib.parse.quote(name)}:predict "
        f"--data '{json.dumps(request)}'",
        "```",
        "",
        signatures,
    ]
    beam = f" of {hp.num_hypotheses}" if keeps_beam(hp.search) else ""
    search = f"{hp.search}{beam}, length penalty {hp.length_penalty:g}"
    for rule in RULES:
        value = search_settings(hp).get(rule, FIELDS[rule].default)
        if value != FIELDS[rule].default:
            search += f", {rule} " + (
                f"{value:g}" if isinstance(value, float) else str(value)
            )
    limits = [f"The search is fixed: {search}."]
    return Exported("for TensorFlow Serving", usage, limits)


def explain_missing_text(vocabularies: Vocabularies) -> str:
    """Explain why text cannot be translated in the graph; return "" if it can."""
    if not all(type(vocabulary) is Vocabulary for vocabulary in vocabularies[:2]):
        return "its vocabulary is not a SentencePiece model: the signature has ids only"
    if IS_TENSORFLOW_1:
        return "TensorFlow 1.15: the signature has ids only"
    try:
        import_tensorflow_text()
    except (ImportError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0]
        return (
            f"without tensorflow-text of TensorFlow {tf.__version__} ({reason:.80}) "
            "the signature has ids only: pip install 'transformer-tf[savedmodel]'"
        )
    return ""


def import_tensorflow_text() -> Any:
    """Import tensorflow_text, whose ops a SavedModel with text needs."""
    import tensorflow_text

    return tensorflow_text


def _create_ids_signature(hp, model, options):
    """Create the signature for ids."""
    source = tf.placeholder(tf.int32, [None, None], IDS)
    hypotheses = _search(hp, model, options, source)
    outputs = {IDS: hypotheses.ids[:, 0], "score": hypotheses.scores[:, 0]}
    return _create_signature({IDS: source}, outputs)


def _create_text_signature(hp, model, options, vocabularies):
    """Create the signature for text."""
    text = tf.placeholder(tf.string, [None], "text")
    source, target = map(_create_tokenizer, vocabularies[:2])
    visible = tf.strings.regex_replace(text, DISPLAY_MARKS.pattern, "")
    pieces = source.tokenize(visible)[:, : hp.max_source_length]  # ragged
    ends = tf.fill([tf.shape(text)[0], 1], options.eos)
    source_ids = tf.concat([pieces, ends], axis=1).to_tensor()
    hypotheses = _search(hp, model, options, source_ids)
    best = hypotheses.ids[:, 0]  # [N, T]
    special = tf.constant([PAD, options.bos, options.eos])
    is_piece = tf.reduce_all(tf.not_equal(best[:, :, None], special), axis=-1)
    translated = target.detokenize(tf.ragged.boolean_mask(best, is_piece))
    is_empty = tf.equal(pieces.row_lengths(), 0)
    outputs = {
        "text": tf.where_v2(is_empty, "", translated),
        "score": tf.where_v2(is_empty, 0.0, hypotheses.scores[:, 0]),
    }
    return _create_signature({"text": text}, outputs)


def _create_tokenizer(vocabulary):
    """Create the ops of tensorflow-text for a vocabulary."""
    content = read_file(vocabulary.path)
    return import_tensorflow_text().SentencepieceTokenizer(content)


def _search(hp, model, options, source) -> Hypotheses:
    """Search for the translations of sources [N, S]."""
    no_prefix = tf.zeros([tf.shape(source)[0], 0], tf.int32)
    return search_from_memory(
        hp, model, model.encode(source), source, no_prefix, options
    )


def _create_signature(inputs, outputs):
    """Create the SignatureDef for inputs and outputs: name → tensor each."""
    return tf.saved_model.build_signature_def(
        {name: tf.saved_model.build_tensor_info(x) for name, x in inputs.items()},
        {name: tf.saved_model.build_tensor_info(x) for name, x in outputs.items()},
        "tensorflow/serving/predict",
    )


# Requests that TensorFlow Serving answers before it reports that it is ready. They are
# PredictionLogs (tensorflow/serving, apis/prediction_log.proto and others). The package
# with their classes would be one more to install. All the fields that are needed hold
# strings, bytes or messages, which look alike on disk, so one class stands for all.


@functools.lru_cache(None)
def _message_class() -> Any:
    """Make a class of messages with six fields of bytes: field_1, …, field_6."""
    fields = collections.OrderedDict(
        (f"field_{number}", descriptor_pb2.FieldDescriptorProto.TYPE_BYTES)
        for number in range(1, 7)
    )
    return proto_builder.MakeSimpleProtoClass(fields, full_name="transformer.Message")


def _message(**fields: bytes) -> bytes:
    """Serialize a message: field_1, …, field_6 → their content."""
    return _message_class()(**fields).SerializeToString()


def _request(signature: str, name: str, tensor: Any) -> bytes:
    """Make a PredictionLog for a request with one input."""
    spec = _message(field_3=signature.encode())  # ModelSpec.signature_name
    entry = _message(field_1=name.encode(), field_2=tensor.SerializeToString())
    predict = _message(field_1=spec, field_2=entry)  # PredictRequest: spec, inputs
    return _message(field_6=_message(field_1=predict))  # predict_log.request


def write_warm_up(folder: str, vocabularies: Vocabularies, only_ids: bool) -> None:
    """Write a request with one sentence, and one with eight, for each signature.

    Args:
      folder: the folder of the version.
      vocabularies: the vocabularies of the model.
      only_ids: whether there is no signature `translate`.
    """
    source = vocabularies.source
    ids = [piece % source.size for piece in range(source.eos + 1, source.eos + 9)]
    requests = []
    for count in (1, 8):
        padded = pad_with_end([ids] * count, source.eos)
        requests.append(_request(IDS, IDS, tf.make_tensor_proto(padded, tf.int32)))
        if not only_ids:
            text = [source.decode(ids)] * count
            requests.append(_request(TRANSLATE, "text", tf.make_tensor_proto(text)))
    path = os.path.join(folder, WARM_UP)
    os.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as file:
        for request in requests:
            file.write(request)


# A translator for comparisons with our translations


class SavedTranslator(BaseTranslator):
    """Translates with a SavedModel that `write` wrote, like TensorFlow Serving.

    Args:
      folder: the written folder.
      hp: the settings.

    Raises:
      ExportDamaged: TensorFlow cannot open it.
    """

    def __init__(self, folder: str, hp: HParams):
        super().__init__(load_vocabularies(folder), hp.max_source_length)
        self._batch_size = hp.decode_batch_size
        if not explain_missing_text(self.vocabularies):
            import_tensorflow_text()
        graph = tf.Graph()
        self._session = Session(graph=graph)
        path = os.path.join(folder, VERSION)
        try:
            with graph.as_default():
                loaded = tf.saved_model.load(
                    self._session, [tf.saved_model.SERVING], path
                )
        except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
            reason = str(error).partition("\n")[0]
            raise ExportDamaged(
                f"{path}: expected a SavedModel, got a damaged one ({reason}); remove "
                "the folder, and export the model again",
                folder,
            ) from error
        self._signatures = loaded.signature_def

    def translate(self, lines: Sequence[str]) -> List[Translation]:
        """Translate each line, with the signature `translate` if there is one."""
        translations: List[Translation] = []
        for start in range(0, len(lines), self._batch_size):
            batch = lines[start : start + self._batch_size]
            if TRANSLATE in self._signatures:
                outputs = self._run(TRANSLATE, "text", batch)
                texts = [text.decode("utf-8") for text in outputs["text"]]
                translations += map(Translation, texts, map(float, outputs["score"]))
            else:
                sources = self.encode(batch)
                ids = pad_with_end(sources, self.vocabularies.source.eos)
                outputs = self._run(IDS, IDS, ids)
                translations += [
                    self.translation(*pair) if source else Translation("", 0.0)
                    for source, *pair in zip(sources, outputs[IDS], outputs["score"])
                ]
        return translations

    def _run(self, signature: str, name: str, value: Any) -> Dict[str, Any]:
        """Compute the outputs of a signature for one input."""
        definition = self._signatures[signature]
        return self._session.run(
            {key: tensor.name for key, tensor in definition.outputs.items()},
            {definition.inputs[name].name: value},
        )
