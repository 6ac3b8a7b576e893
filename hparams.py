"""The settings: their fields, the presets, which value wins, the saved file.

Every field of `HParams` is a flag of `train.py`, a name in `logdir/hparams.json` and an
attribute of the `hp` that `transformer/` receives. `resolve` says which value wins.
"""

import dataclasses
import json
import math
import os
from typing import Any, Collection, Dict, List, Optional, Sequence

from transformer.dialects import DIALECTS
from transformer.runtime import files, formats
from transformer.runtime.cli import refuse_unknown, unknown

FILE_NAME = "hparams.json"
LARGEST = 2**31  # integers are below it, so that they fit into an int32


def setting(
    group: str,
    default: Any,
    text: str,
    least: int = 1,
    below: Optional[float] = None,
    choices: Collection[str] = (),
) -> Any:
    """Return a field of the settings.

    Args:
      group: the heading under which `--help` shows it.
      default: its value where nothing else is said; its type is that of the field.
      text: the line of help.
      least, below: of a number, least <= number < below.
      choices: the values that a text may have; empty: checked where it is looked up.
    """
    if below is None:
        below = LARGEST if isinstance(default, int) else math.inf
    limits = {"least": least, "below": below, "choices": choices}
    return dataclasses.field(
        default=default, metadata={"group": group, "help": text, **limits}
    )


@dataclasses.dataclass(frozen=True)
class HParams:
    """All settings; the defaults are the base model of the paper (Table 3)."""

    # The corpus.
    data: str = setting("corpus", "data/sample", "folder that prepare.py wrote")

    # The model: settings that are fixed once training has begun.
    dialect: str = setting(
        "model", "paper", f"whose design: {', '.join(DIALECTS)}", choices=DIALECTS
    )
    num_blocks: int = setting("model", 6, "encoder blocks, and as many decoder blocks")
    d_model: int = setting("model", 512, "width of the model")
    d_ff: int = setting("model", 2048, "width inside the feed-forward networks")
    num_heads: int = setting("model", 8, "attention heads; they divide d_model")
    positions: str = setting(
        "model", "", "learned, interleaved, per_channel, halves; empty: the dialect's"
    )
    max_positions: int = setting("model", 256, "rows of a table of learned positions")
    pad_sources_to: int = setting(
        "model", 0, "pieces that sources are padded to; 0: the longest", least=0
    )
    max_relative_position: int = setting(
        "model", 0, "relative positions are clipped to this distance; 0: none", least=0
    )
    proximity_bias: bool = setting("model", False, "prefer near positions")
    source_vocab_size: int = setting("model", 0, "source pieces; 0: data's", least=0)
    target_vocab_size: int = setting("model", 0, "target pieces; 0: data's", least=0)
    joint_vocab: bool = setting("model", True, "both languages share one vocabulary")

    # Training.
    batch_tokens: int = setting(
        "training", 4096, "most tokens of a batch, with padding, on either side"
    )
    accumulate: int = setting("training", 1, "batches summed into one update")
    shards: int = setting(
        "training", 0, "parts of a batch; 0: 1, or 8 on several devices", least=0
    )
    max_steps: int = setting("training", 100000, "updates until training ends")
    schedule: str = setting(
        "training", "", "noam, noam_by_peak, rsqrt, constant, linear; empty: dialect's"
    )
    learning_rate: float = setting(
        "training", 0.0, "factor of the schedule; 0: the dialect's", least=0
    )
    warmup_steps: int = setting("training", 4000, "steps up to the highest rate")
    dropout_rate: float = setting(
        "training", 0.1, "share of activations dropped", least=0, below=1
    )
    label_smoothing: float = setting(
        "training", 0.1, "probability taken from the true piece", least=0, below=1
    )
    clip_norm: float = setting(
        "training", 0.0, "largest norm of the gradients; 0: no limit", least=0
    )
    seed: int = setting("training", 1, "seed of variables, batches, dropout", least=0)
    log_every: int = setting("training", 50, "steps between two lines of the log")
    save_every: int = setting("training", 1000, "steps between two checkpoints")
    keep_checkpoints: int = setting("training", 5, "checkpoints kept, the newest")
    on_save_error: str = setting(
        "training",
        "stop",
        "if saving fails: stop or continue",
        choices=("stop", "continue"),
    )
    audit_every: int = setting(
        "training", 1000, "steps between audits; 0: off", least=0
    )
    eval_every: int = setting("training", 1000, "steps between two dev BLEU scores")
    patience: int = setting(
        "training", 0, "evaluations without a better BLEU, then stop; 0: off", least=0
    )

    # Decoding.
    search: str = setting("decoding", "beam", "beam, greedy or sample")
    beam_size: int = setting("decoding", 4, "hypotheses kept at each step")
    length_penalty: float = setting(
        "decoding", 0.6, "alpha: how much long translations are preferred", least=0
    )
    max_extra_length: int = setting(
        "decoding",
        50,
        "pieces by which a translation may exceed its source",
        least=0,
        below=LARGEST // 2,  # added to the pieces of the source, it is still below
    )
    max_source_length: int = setting(
        "decoding",
        1000,
        "pieces of a line that are translated; the rest is cut off",
        below=LARGEST // 2,
    )
    decode_batch_size: int = setting("decoding", 64, "sentences; 1: the least delay")

    # The machine: how it computes, not what.
    devices: str = setting(
        "machine", "", "gpu:4; cpu:2, logical ones; empty: all GPUs, or the CPU"
    )
    precision: str = setting(
        "machine", "float32", "float32, bfloat16; float16 (GPU: untried, CPU: slow)"
    )
    xla: bool = setting("machine", False, "compile training with XLA: for GPUs")
    deterministic: bool = setting(
        "machine", False, "one thread: runs are equal to the last bit, and slower"
    )


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
        "eval_every": 400,  # a dev BLEU beside each
    },
    # Multi30k: 29,000 captions of pictures.
    "multi30k": {
        "data": "data/multi30k",
        "num_blocks": 3,  # 29,000 pairs do not fill six
        "d_model": 256,  # and overfit a wider model
        "d_ff": 512,  # twice d_model: a cheaper step, and time for more
        "num_heads": 4,  # 64 dimensions a head, as in the paper
        "dialect": "tensor2tensor",  # norm before each sub-layer: learns much faster
        "batch_tokens": 2048,  # about 120 captions
        "schedule": "linear",  # the number of steps is known
        "learning_rate": 0.002,  # a small model tolerates a high rate
        "warmup_steps": 400,  # a seventh of the way
        "max_steps": 2700,  # 11 minutes on two cores in bfloat16
        "save_every": 450,  # at most two minutes can be lost
        "eval_every": 450,  # six dev BLEU scores
        "beam_size": 5,
        "length_penalty": 1.2,  # best on dev: with less, translations are too short
    },
    # The base model of Table 3: the defaults, in batches of section 5.1.
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
        "keep_checkpoints": 20,  # to average, as section 6.1 does; of base it is 5
    },
}

FIELDS = {field.name: field for field in dataclasses.fields(HParams)}

# What a command may change that translates with a trained model.
DECODING = {
    name: field
    for name, field in FIELDS.items()
    if field.metadata["group"] == "decoding" or name in ("deterministic", "devices")
}


def resolve(
    given: Dict[str, Any], preset: Optional[str] = None, logdir: Optional[str] = None
) -> HParams:
    """Return the settings: defaults < preset < logdir/hparams.json < command line.

    Args:
      given: the settings named on the command line; see `cli.given`.
      preset: a name in `PRESETS`, or None.
      logdir: a log directory, or None; it may not exist yet.

    Returns:
      The settings, validated.

    Raises:
      ValueError: a name or a value is wrong, or `given` contradicts the architecture
        that is saved in `logdir`.
    """
    if preset:
        refuse_unknown("preset", preset, PRESETS)
    values = dict(PRESETS[preset]) if preset else {}
    given = _checked(given, "command line")
    files.refuse_links(logdir or "")
    if logdir and has_settings(logdir):
        saved = _read(logdir)
        model = {
            name: field.default
            for name, field in FIELDS.items()
            if field.metadata["group"] == "model"
        }
        saved = {**model, "shards": 1, **saved}  # an older file may lack settings
        _refuse_other_architecture(given, saved, os.path.join(logdir, FILE_NAME))
        values.update(saved)
    values.update(given)
    hp = HParams(**values)
    validate(hp)
    return hp


def validate(hp: HParams) -> None:
    """Raise ValueError, saying found and wanted, for settings that cannot work."""
    for name, value in _checked(dataclasses.asdict(hp), "settings").items():
        limits = FIELDS[name].metadata
        least, below, choices = (limits[key] for key in ("least", "below", "choices"))
        if FIELDS[name].type in (int, float) and not least <= value < below:
            raise ValueError(
                f"{name}: found {value}, wanted {least} <= {name} < {below}"
            )
        if choices:
            refuse_unknown(name, value, choices)
    if not hp.data:
        raise ValueError("data: found an empty name, wanted a path")
    if hp.d_model % hp.num_heads:
        raise ValueError(
            f"num_heads: found {hp.num_heads}, wanted a divisor of "
            f"d_model = {hp.d_model}"
        )
    sizes = (hp.source_vocab_size, hp.target_vocab_size)
    if hp.joint_vocab and 0 not in sizes and sizes[0] != sizes[1]:
        raise ValueError(
            f"joint_vocab: found {sizes[0]} source and {sizes[1]} target "
            "pieces, wanted as many of both"
        )


def has_settings(logdir: str) -> bool:
    """Return whether a log directory has saved settings."""
    return os.path.exists(os.path.join(logdir, FILE_NAME))


def save(hp: HParams, logdir: str) -> None:
    """Write `logdir/hparams.json`, whole or not at all; `logdir` is made."""
    os.makedirs(logdir, exist_ok=True)
    with files.replaced(os.path.join(logdir, FILE_NAME)) as file:
        content = formats.stamped(dataclasses.asdict(hp))
        json.dump(content, file, indent=2, sort_keys=True)
        file.write("\n")


def load(logdir: str, given: Optional[Dict[str, Any]] = None) -> HParams:
    """Return the settings saved in `logdir`, overridden by those that are `given`.

    The devices are not those of training: the folder may have been moved.

    Raises:
      ValueError: there are none, or they cannot work.
    """
    files.refuse_links(logdir)
    hp = HParams(**{**_read(logdir), "devices": "", **(given or {})})
    validate(hp)
    return hp


def load_each(logdirs: Sequence[str], given: Dict[str, Any]) -> List[tuple]:
    """Return (settings, log directory) of some log directories; see `load`."""
    return [(load(logdir, given), logdir) for logdir in logdirs]


def _read(logdir: str) -> Dict[str, Any]:
    """Return the checked content of `logdir/hparams.json`."""
    path = os.path.join(logdir, FILE_NAME)
    if not os.path.exists(path):
        raise ValueError(f"no {path}: wanted a log directory written by train.py")
    values = _checked(formats.read_json(path, "settings"), path)
    if values.get("positions") == "sinusoid":  # before POSITIONS had names of their own
        dialect = DIALECTS.get(values.get("dialect", HParams.dialect))
        values["positions"] = dialect.positions if dialect else ""
    return values


def _checked(values: Dict[str, Any], where: str) -> Dict[str, Any]:
    """Return `values` with known names and right types; 1 becomes 1.0 for a float."""
    checked = {}
    for name, value in values.items():
        if name not in FIELDS:
            raise ValueError(f"{where}: {unknown('setting', name, FIELDS)}")
        wanted = FIELDS[name].type
        if wanted is float and type(value) is int and abs(value) < LARGEST:
            value = float(value)
        if type(value) is not wanted:
            raise ValueError(
                f"{where}: {name}: found {value!r} "
                f"({type(value).__name__}), wanted {wanted.__name__}"
            )
        checked[name] = value
    return checked


def _refuse_other_architecture(
    given: Dict[str, Any], saved: Dict[str, Any], path: str
) -> None:
    """Raise ValueError where `given` changes a saved setting of the model."""
    for name in sorted(set(given) & set(saved)):
        fixed = FIELDS[name].metadata["group"] == "model"
        if fixed and given[name] != saved[name]:
            raise ValueError(
                f"{name} is fixed by {path}: found {given[name]}, wanted "
                f"{saved[name]}; choose another --logdir"
            )
