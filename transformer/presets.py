"""The presets, and which value of a setting wins: see `resolve`.

The settings themselves are the fields of `HParams` in `hparams.py`.
"""

import os
from typing import Any, Dict, Optional

from transformer.hparams import (
    FIELDS,
    FILE_NAME,
    HParams,
    checked,
    has_settings,
    read,
    refuse_other_architecture,
    validate,
)
from transformer.runtime import files
from transformer.runtime.cli import refuse_unknown

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
        "max_extra_length": 20,  # no pair of train needs 15; searches end sooner
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


MODEL_DEFAULTS = {
    name: field.default
    for name, field in FIELDS.items()
    if field.metadata["group"] == "model"
}


def resolve(
    given: Dict[str, Any],
    preset: Optional[str] = None,
    logdir: Optional[str] = None,
    init_from: Optional[str] = None,
) -> HParams:
    """Return the settings: defaults < preset < logdir/hparams.json < command line.

    Args:
      given: the settings named on the command line; see `cli.given`.
      preset: a name in `PRESETS`, or None.
      logdir: a log directory, or None; it may not exist yet.
      init_from: the log directory whose weights a new training run begins with, and
        whose architecture it has; None: none.

    Returns:
      The settings, validated.

    Raises:
      ValueError: a name or a value is wrong, or contradicts the architecture that is
        saved in `logdir` or `init_from`.
    """
    if preset:
        refuse_unknown("preset", preset, PRESETS)
    values = dict(PRESETS[preset]) if preset else {}
    given = checked(given, "command line")
    files.refuse_links(logdir or "")
    if logdir and has_settings(logdir):
        saved = {**MODEL_DEFAULTS, **read(logdir)}  # an older file may lack settings
        refuse_other_architecture(given, saved, os.path.join(logdir, FILE_NAME))
        values.update(saved)
    elif init_from:
        files.refuse_links(init_from)
        saved = {**MODEL_DEFAULTS, **read(init_from)}
        model = {name: saved[name] for name in MODEL_DEFAULTS}
        path = os.path.join(init_from, FILE_NAME)
        refuse_other_architecture({**values, **given}, model, path, "--init_from")
        values.update(model)
    values.update(given)
    hp = HParams(**values)
    validate(hp)
    return hp
