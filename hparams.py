"""The settings and presets by one name, and the place for presets of your own.

They are in `transformer/hparams.py`. A preset that is added here is known to
`python train.py`:

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
