"""The settings: their fields, checks and presets, and their file in a log directory.

Every field is a flag of `transformer-tf train` and a name in `logdir/hparams.json`.
`resolve` says which value of a setting wins.
"""

import dataclasses
import functools
import json
import math
import operator
import os
from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple

from transformer.dialects import DIALECTS, Dialect
from transformer.dialects import resolve as resolve_dialect
from transformer.length_penalty import LENGTH_PENALTIES
from transformer.logdir import manifests
from transformer.logdir.names import SETTINGS
from transformer.runtime import files
from transformer.runtime.errors import (
    ArchitectureMismatch,
    LogDirectoryError,
    LogDirectoryNotFound,
    SettingsError,
)
from transformer.runtime.names import describe_unknown, refuse_unknown

FILE_NAME = SETTINGS  # in a log directory
# Settings of earlier versions; their values are ignored.
REMOVED = ("audit_every", "devices", "xla")
# Values are below these limits.
INT_LIMIT = 2**31  # integers fit into an int32
SHARD_LIMIT = 2**16  # shards, or batches of an update; more would never finish
# Sizes that do not fit into any memory are refused before they are used.
BLOCK_LIMIT = 2**10
WIDTH_LIMIT = 2**15
LENGTH_LIMIT = 2**16  # pieces of a sentence
SAMPLING = ("temperature", "top_k", "top_p")  # settings of the search "sample"
# The searches in `decoding.SEARCHES`, each with the settings that only it uses.
SEARCH_SETTINGS: Dict[str, Tuple[str, ...]] = {
    "beam": ("beam_size",),
    "greedy": (),
    "sample": ("seed", *SAMPLING),
}


def keeps_beam(search: str) -> bool:
    """Return whether a search keeps `beam_size` hypotheses; the others keep one."""
    return "beam_size" in SEARCH_SETTINGS.get(search, ())


def setting(
    group: str,
    default: Any,
    text: str,
    minimum: float = 1,
    below: Optional[float] = None,
    choices: Collection[str] = (),
) -> Any:
    """Make a field of the settings.

    Args:
      group: the heading under which the help shows the field.
      default: the default value; its type is the type of the field.
      text: the line of help.
      minimum, below: the limits of a number: minimum <= number < below.
      choices: the allowed values of a string. Empty: the code that uses the value must
        check it.
    """
    if below is None:
        below = INT_LIMIT if isinstance(default, int) else math.inf
    limits = {"minimum": minimum, "below": below, "choices": choices}
    return dataclasses.field(
        default=default, metadata={"group": group, "help": text, **limits}
    )


# Fields of each group; the group "corpus" has only one.
model_setting = functools.partial(setting, "model")
training_setting = functools.partial(setting, "training")
decoding_setting = functools.partial(setting, "decoding")
machine_setting = functools.partial(setting, "machine")


@dataclasses.dataclass(frozen=True)
class HParams:
    """All settings; the defaults are those of the paper's base model (Table 3)."""

    # The corpus.
    data: str = setting("corpus", "data/sample", "folder of a prepared corpus")

    # The model. These settings are fixed once training has begun.
    dialect: str = model_setting(
        "paper", f"the design: {', '.join(DIALECTS)}", choices=DIALECTS
    )
    num_blocks: int = model_setting(
        6, "number of encoder blocks, and of decoder blocks", below=BLOCK_LIMIT
    )
    num_encoder_blocks: int = model_setting(
        0, "number of encoder blocks; 0: num_blocks", minimum=0, below=BLOCK_LIMIT
    )
    num_decoder_blocks: int = model_setting(
        0, "number of decoder blocks; 0: num_blocks", minimum=0, below=BLOCK_LIMIT
    )
    d_model: int = model_setting(512, "width of the model", below=WIDTH_LIMIT)
    d_ff: int = model_setting(
        2048, "inner width of the feed-forward networks", below=4 * WIDTH_LIMIT
    )
    num_heads: int = model_setting(8, "attention heads; a divisor of d_model")
    d_k: int = model_setting(
        0,
        "width of a head's keys; 0: d_model / num_heads",
        minimum=0,
        below=WIDTH_LIMIT,
    )
    d_v: int = model_setting(
        0,
        "width of a head's values; 0: d_model / num_heads",
        minimum=0,
        below=WIDTH_LIMIT,
    )
    positions: str = model_setting(
        "", "learned, interleaved, per_channel, halves; empty: the dialect's"
    )
    max_positions: int = model_setting(
        256, "rows in the table of learned positions", below=LENGTH_LIMIT
    )
    pad_sources_to: int = model_setting(
        0,
        "pad sources to this many pieces; 0: to the longest",
        minimum=0,
        below=LENGTH_LIMIT // 4,
    )
    max_relative_position: int = model_setting(
        0,
        "relative positions are clipped to this distance; 0: none",
        minimum=0,
        below=LENGTH_LIMIT,
    )
    proximity_bias: bool = model_setting(False, "prefer nearby positions")
    source_vocab_size: int = model_setting(
        0, "source vocabulary size; 0: from the data", minimum=0
    )
    target_vocab_size: int = model_setting(
        0, "target vocabulary size; 0: from the data", minimum=0
    )
    joint_vocab: bool = model_setting(True, "both languages share one vocabulary")

    # Training.
    batch_tokens: int = training_setting(
        4096, "maximum tokens per batch on either side, with padding"
    )
    batch_shapes: int = training_setting(
        0,
        "maximum number of batch shapes: fewer need less memory on a CPU, and more "
        "padding; 0: any number",
        minimum=0,
        below=SHARD_LIMIT,
    )
    accumulate: int = training_setting(
        1,
        "batches summed into one update; if it changes, a run reads some batches "
        "again, or leaves some out",
        below=SHARD_LIMIT,
    )
    shards: int = training_setting(
        0,
        "shards per batch of a deterministic run; 0: 1, or 8 with several workers",
        minimum=0,
        below=SHARD_LIMIT,
    )
    max_steps: int = training_setting(
        100000,
        "total number of updates; with the schedule linear, the learning rate ends "
        "near 0 there, and rises again if a finished run gets more",
    )
    schedule: str = training_setting(
        "", "noam, noam_by_peak, rsqrt, constant, linear; empty: the dialect's"
    )
    learning_rate: float = training_setting(
        0.0,
        "factor of the schedule: with linear, constant and noam_by_peak, the peak; 0: "
        "the dialect's",
        minimum=0,
    )
    warmup_steps: int = training_setting(4000, "steps to the peak learning rate")
    dropout_rate: float = training_setting(
        0.1, "fraction of activations dropped", minimum=0, below=1
    )
    attention_dropout: float = training_setting(
        -1.0,
        "fraction of attention weights dropped; -1: the dialect's",
        minimum=-1,
        below=1,
    )
    ffn_dropout: float = training_setting(
        -1.0,
        "fraction of inner feed-forward activations dropped; -1: the dialect's",
        minimum=-1,
        below=1,
    )
    label_smoothing: float = training_setting(
        0.1, "probability taken from the true piece", minimum=0, below=1
    )
    r_drop: float = training_setting(
        0.0,
        "weight of R-Drop, which makes two passes with different dropout agree, at "
        "twice the cost; 0: one pass; try 5",
        minimum=0,
    )
    clip_norm: float = training_setting(
        0.0, "maximum gradient norm; 0: no limit", minimum=0
    )
    seed: int = training_setting(
        1, "seed of variables, batches, dropout, and of the search sample", minimum=0
    )
    log_every: int = training_setting(50, "steps between log lines")
    save_every: int = training_setting(1000, "steps between checkpoints")
    keep_checkpoints: int = training_setting(5, "newest checkpoints to keep")
    on_save_error: str = training_setting(
        "stop", "if saving fails: stop or continue", choices=("stop", "continue")
    )
    eval_every: int = training_setting(1000, "steps between dev BLEU scores")
    patience: int = training_setting(
        0, "stop after this many evaluations without a better BLEU; 0: off", minimum=0
    )

    # Decoding.
    search: str = decoding_setting("beam", ", ".join(SEARCH_SETTINGS))
    beam_size: int = decoding_setting(4, "hypotheses kept at each step", below=2**10)
    length_penalty: float = decoding_setting(
        0.6, "alpha: how strongly to prefer long translations", minimum=0
    )
    length_penalty_form: str = decoding_setting(
        "wu",
        "scores are divided by: wu, ((5 + length) / 6)^alpha; power, length^alpha, as "
        "in fairseq, Sockeye and Hugging Face",
        choices=LENGTH_PENALTIES,
    )
    min_length: int = decoding_setting(
        0, "minimum number of pieces in a translation", minimum=0, below=LENGTH_LIMIT
    )
    no_repeat_ngram: int = decoding_setting(
        0, "never produce the same n pieces in a row twice; 0: off", minimum=0
    )
    repetition_penalty: float = decoding_setting(
        1.0, "above 1, pieces that a translation already has become less likely"
    )
    temperature: float = decoding_setting(
        1.0, "sample: below 1 favours likely pieces", minimum=0.01
    )
    top_k: int = decoding_setting(
        0, "sample: from the k likeliest pieces; 0: from all", minimum=0
    )
    top_p: float = decoding_setting(
        0.0,
        "sample: from the likeliest pieces up to this total probability; 0: from all",
        minimum=0,
        below=1,
    )
    max_extra_length: int = decoding_setting(
        50,
        "pieces by which a translation may exceed its source",
        minimum=0,
        below=LENGTH_LIMIT,
    )
    keep_open: bool = decoding_setting(
        False,
        "a translation that reaches this limit stays unfinished; by default, it must "
        "end there",
    )
    max_source_length: int = decoding_setting(
        1000, "pieces of a line to translate; the rest is cut off", below=INT_LIMIT // 2
    )
    decode_batch_size: int = decoding_setting(
        64, "sentences per batch; 1: the lowest latency"
    )
    decode_precision: str = decoding_setting(
        "float32",
        "float32; bfloat16 is faster in batches, but slightly less precise",
        choices=("float32", "bfloat16"),
    )

    # The machine: how it computes, not what it computes.
    precision: str = machine_setting(
        "float32", "float32, bfloat16; float16 (CPU: slow)"
    )
    deterministic: bool = machine_setting(
        False, "one thread: runs are slower, but identical to the last bit"
    )

    @property
    def encoder_blocks(self) -> int:
        """The number of encoder blocks."""
        return self.num_encoder_blocks or self.num_blocks

    @property
    def decoder_blocks(self) -> int:
        """The number of decoder blocks."""
        return self.num_decoder_blocks or self.num_blocks

    @property
    def key_units(self) -> int:
        """The width of the keys of all heads together."""
        return self.num_heads * self.d_k or self.d_model

    @property
    def value_units(self) -> int:
        """The width of the values of all heads together."""
        return self.num_heads * self.d_v or self.d_model

    @property
    def num_hypotheses(self) -> int:
        """The number of hypotheses that the search keeps: 1 without a beam."""
        return self.beam_size if keeps_beam(self.search) else 1

    @property
    def resolved_dialect(self) -> Dialect:
        """The Dialect that the setting `dialect` names."""
        return resolve_dialect(self.dialect)

    def rate_of(self, name: str) -> Optional[float]:
        """Return a dropout rate; None if the dialect decides.

        Args:
          name: "attention_dropout" or "ffn_dropout".
        """
        rate = getattr(self, name)
        return None if rate < 0 else rate


FIELDS = {field.name: field for field in dataclasses.fields(HParams)}

# Differences from the defaults; the extension point for presets.
PRESETS: Dict[str, Dict[str, Any]] = {
    # data/sample in a few minutes on a CPU.
    "sample": {
        "num_blocks": 2,  # short sentences of one small grammar
        "d_model": 128,  # 2,000 pieces need no more
        "d_ff": 512,  # four times d_model, as in the paper
        "num_heads": 4,  # 32 dimensions a head
        "batch_tokens": 2048,  # more updates for the same time
        "schedule": "linear",  # the number of steps is known
        "learning_rate": 0.002,  # a small model tolerates a high rate
        "warmup_steps": 200,  # a sixth of the way
        "max_steps": 1200,  # three minutes on two cores
        "save_every": 400,  # three checkpoints
        "eval_every": 400,  # a dev BLEU for each
    },
    # Multi30k: 29,000 captions of pictures.
    "multi30k": {
        "data": "data/multi30k",
        "num_blocks": 3,  # 29,000 pairs do not fill six
        "d_model": 256,  # a wider model would overfit
        "d_ff": 512,  # twice d_model: a cheaper step, and time for more
        "num_heads": 4,  # 64 dimensions a head, as in the paper
        "dialect": "tensor2tensor",  # norm before each sub-layer: it learns much faster
        "batch_tokens": 2048,  # about 120 captions
        "schedule": "linear",  # the number of steps is known
        "learning_rate": 0.002,  # a small model tolerates a high rate
        "warmup_steps": 400,  # a seventh of the way
        "max_steps": 2700,  # 13 minutes on two cores in bfloat16
        "save_every": 450,  # at most two minutes can be lost
        "eval_every": 450,  # six dev BLEU scores
        "beam_size": 5,
        "length_penalty": 1.2,  # best on dev; with less, translations are too short
        "max_extra_length": 20,  # no training pair needs 15; searches end sooner
    },
    # The base model of Table 3: the defaults, with the batches of section 5.1.
    "base": {
        "batch_tokens": 25000  # source tokens, and as many target tokens
    },
    # The big model of Table 3.
    "big": {
        "d_model": 1024,
        "d_ff": 4096,
        "num_heads": 16,  # 64 dimensions a head, as in the base model
        "dropout_rate": 0.3,  # the wider model overfits sooner
        "batch_tokens": 25000,  # source tokens, and as many target tokens
        "max_steps": 300000,  # 3.5 days on the paper's eight GPUs
        "keep_checkpoints": 20,  # to average, as in section 6.1; 5 for base
    },
}

# The laboratory, tools/lab: `multi30k` with a ninth of its tokens. With three blocks,
# 1, 2 and 4 are the proportions of Table 3, which has 2, 4 and 8 beside its 6.
PRESETS["lab"] = {
    **PRESETS["multi30k"],
    "batch_tokens": 512,  # more updates for the same tokens
    "learning_rate": 0.001,  # the gradients of small batches are noisier
    "warmup_steps": 180,  # a seventh of the way
    "max_steps": 1200,
    "save_every": 300,  # four checkpoints, to average
    "eval_every": 300,  # a dev BLEU for each
    "beam_size": 1,  # greedy: evaluations take less of the time
}

# The settings that may differ from those of training when a trained model translates.
DECODING = {
    name: field
    for name, field in FIELDS.items()
    if field.metadata["group"] == "decoding" or name in ("deterministic", "seed")
}

MODEL_DEFAULTS = {
    name: field.default
    for name, field in FIELDS.items()
    if field.metadata["group"] == "model"
}


def model_settings(hp: HParams) -> Dict[str, Any]:
    """Return the settings on which the meaning of a checkpoint depends.

    `pad_sources_to` is left out: no variable depends on it, and it may be set after a
    checkpoint is imported.
    """
    return {
        name: getattr(hp, name)
        for name, field in FIELDS.items()
        if field.metadata["group"] == "model" and name != "pad_sources_to"
    }


def search_settings(hp: HParams) -> Dict[str, Any]:
    """Return the settings on which the translations of a model depend."""
    left_out = {"decode_batch_size", "decode_precision", "deterministic"}
    left_out.update(*SEARCH_SETTINGS.values())
    left_out.difference_update(SEARCH_SETTINGS.get(hp.search, ()))
    return {name: getattr(hp, name) for name in DECODING if name not in left_out}


def refuse_outside_limits(name: str, value: Any) -> None:
    """Raise SettingsError if a setting is outside its limits, or no choice."""
    limits = FIELDS[name].metadata
    minimum = limits["minimum"]
    below = limits["below"]
    if FIELDS[name].type in (int, float) and not minimum <= value < below:
        raise SettingsError(
            f"{name}: expected {minimum} <= {name} < {below}, got {value}"
        )
    if limits["choices"]:
        refuse_unknown(name, value, limits["choices"])


def validate(hp: HParams) -> None:
    """Raise SettingsError for settings that cannot work."""
    for name, value in check_types(dataclasses.asdict(hp), "settings").items():
        refuse_outside_limits(name, value)
    for name in ("attention_dropout", "ffn_dropout"):
        if -1 < getattr(hp, name) < 0:
            raise SettingsError(
                f"{name}: expected -1 for the dialect's, or a rate of 0 or more, got "
                f"{getattr(hp, name)}"
            )
    if not hp.data:
        raise SettingsError("data: expected a path, got an empty name")
    if hp.d_model % hp.num_heads and not (hp.d_k and hp.d_v):
        raise SettingsError(
            f"num_heads: expected a divisor of d_model = {hp.d_model}, got "
            f"{hp.num_heads}"
        )
    if not hp.resolved_dialect.output_projection and hp.value_units != hp.d_model:
        raise SettingsError(
            f"d_v: expected d_model / num_heads = {hp.d_model / hp.num_heads:g}, "
            f"because the dialect {hp.dialect} has no W^O, got {hp.d_v}"
        )
    sizes = (hp.source_vocab_size, hp.target_vocab_size)
    if hp.joint_vocab and 0 not in sizes and sizes[0] != sizes[1]:
        raise SettingsError(
            "joint_vocab: expected the same number of source and target pieces, got "
            f"{sizes[0]} and {sizes[1]}"
        )


def refuse_n_best(n_best: int, hp: HParams) -> None:
    """Raise SettingsError if the search does not keep `n_best` hypotheses."""
    try:
        operator.index(n_best)
    except TypeError:
        raise SettingsError(f"n_best: expected an integer, got {n_best!r}") from None
    if not 1 <= n_best <= hp.num_hypotheses:
        advice = (
            "raise beam_size" if keeps_beam(hp.search) else "choose the search beam"
        )
        raise SettingsError(
            f"n_best: expected 1 to {hp.num_hypotheses}, got {n_best}: the search "
            f"{hp.search} finds no more; {advice}"
        )


def has_settings(logdir: str) -> bool:
    """Return whether a log directory has saved settings."""
    return os.path.exists(os.path.join(logdir, FILE_NAME))


def save(hp: HParams, logdir: str) -> None:
    """Write `logdir/hparams.json`, completely or not at all; create `logdir`."""
    os.makedirs(logdir, exist_ok=True)
    with files.replace_file(os.path.join(logdir, FILE_NAME)) as file:
        content = files.add_stamp(dataclasses.asdict(hp))
        json.dump(content, file, indent=2, sort_keys=True)
        file.write("\n")


def load(logdir: str, overrides: Optional[Dict[str, Any]] = None) -> HParams:
    """Load the settings saved in `logdir`, with `overrides`.

    Raises:
      LogDirectoryNotFound: there are no saved settings.
      SettingsError: they cannot work, or an override would have no effect.
    """
    overrides = overrides or {}
    hp = HParams(**{**read(logdir), **overrides})
    validate(hp)
    unused = [
        name
        for name in SAMPLING
        if overrides.get(name, FIELDS[name].default) != FIELDS[name].default
    ]
    if unused and hp.search != "sample":
        raise SettingsError(
            f"{', '.join(unused)}: expected the search sample, as no other uses these "
            f"settings, got {hp.search}; choose it, or leave them out"
        )
    return hp


def load_each(
    logdirs: Sequence[str], overrides: Dict[str, Any]
) -> List[Tuple[HParams, str]]:
    """Load (settings, log directory) of each log directory; see `load`."""
    if not logdirs:
        raise LogDirectoryError("no log directory: expected one or more")
    return [(load(logdir, overrides), logdir) for logdir in logdirs]


def read(logdir: str) -> Dict[str, Any]:
    """Read `logdir/hparams.json`, and check its names and types."""
    path = os.path.join(logdir, FILE_NAME)
    if not os.path.exists(path):
        raise LogDirectoryNotFound(
            f"{path} is missing: {logdir} is not a log directory", logdir
        )
    values = files.read_json(path, "settings")
    values = {name: value for name, value in values.items() if name not in REMOVED}
    later = files.describe_later_version(path)
    try:
        values = check_types(values, path)
        if later:  # it may also allow other values
            hp = HParams(**values)
            validate(hp)
            refuse_unknown("search", hp.search, SEARCH_SETTINGS)
    except SettingsError as error:
        if not later:
            raise
        raise SettingsError(f"{error}; {later}") from error
    return values


def check_types(values: Dict[str, Any], origin: str) -> Dict[str, Any]:
    """Check the names and types of settings; make 1 a float where one is expected.

    Args:
      values: name → value.
      origin: where they come from, for the message.

    Raises:
      SettingsError: a name is unknown, or a value has another type.
    """
    checked = {}
    for name, value in values.items():
        if name not in FIELDS:
            raise SettingsError(
                f"{origin}: {describe_unknown('setting', name, FIELDS)}"
            )
        expected: Any = FIELDS[name].type
        if expected is float and type(value) is int and abs(value) < INT_LIMIT:
            value = float(value)
        if type(value) is not expected:
            raise SettingsError(
                f"{origin}: {name}: expected {expected.__name__}, got {value!r} "
                f"({type(value).__name__})"
            )
        checked[name] = value
    return checked


def refuse_other_architecture(
    overrides: Dict[str, Any],
    saved: Dict[str, Any],
    path: str,
    argument: str = "logdir",
) -> None:
    """Raise ArchitectureMismatch if `overrides` change a saved setting of the model.

    Args:
      overrides, saved: name → value.
      path: the file of the saved settings.
      argument: the argument of `resolve` that named its folder.
    """
    for name in sorted(set(overrides) & set(saved)):
        is_fixed = FIELDS[name].metadata["group"] == "model"
        if is_fixed and overrides[name] != saved[name]:
            raise ArchitectureMismatch(
                f"{name} is fixed by {path}: expected {saved[name]!r}, got "
                f"{overrides[name]!r}",
                argument,
            )


def resolve(
    overrides: Dict[str, Any],
    preset: Optional[str] = None,
    logdir: Optional[str] = None,
    init_from: Optional[str] = None,
) -> HParams:
    """Resolve the settings: defaults < preset < logdir/hparams.json < `overrides`.

    Args:
      overrides: the settings that were named, for example on the command line.
      preset: a name in `PRESETS`, or None.
      logdir: a log directory, or None; it may not exist yet.
      init_from: the log directory from which a new training run takes its first weights
        and its architecture, or None.

    Returns:
      The settings, validated.

    Raises:
      SettingsError: a name or a value is wrong, or contradicts the architecture saved
        in `logdir` or `init_from`.
    """
    if preset:
        refuse_unknown("preset", preset, PRESETS)
    values = check_types(PRESETS[preset], f"preset {preset}") if preset else {}
    overrides = check_types(overrides, "command line")
    if logdir and has_settings(logdir):
        saved = {**MODEL_DEFAULTS, **read(logdir)}  # an older file may lack settings
        refuse_other_architecture(overrides, saved, os.path.join(logdir, FILE_NAME))
        values.update(saved)
    if init_from and not (logdir and manifests.has_checkpoint(logdir)):
        saved = {**MODEL_DEFAULTS, **read(init_from)}
        model = {name: saved[name] for name in MODEL_DEFAULTS}
        path = os.path.join(init_from, FILE_NAME)
        refuse_other_architecture({**values, **overrides}, model, path, "init_from")
        values.update(model)
    values.update(overrides)
    hp = HParams(**values)
    validate(hp)
    return hp
