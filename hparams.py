"""The settings and presets under one name, and the place for your own presets.

They are defined in `transformer/hparams.py`. `python train.py` also knows presets that
you add here:

    PRESETS["mine"] = {"num_blocks": 4, "d_model": 256}
"""

from transformer.hparams import (
    DECODING,
    FIELDS,
    FILE_NAME,
    PRESETS,
    HParams,
    has_settings,
    load,
    load_each,
    resolve,
    save,
    validate,
)

__all__ = [
    "DECODING",
    "FIELDS",
    "FILE_NAME",
    "PRESETS",
    "HParams",
    "has_settings",
    "load",
    "load_each",
    "resolve",
    "save",
    "validate",
]
