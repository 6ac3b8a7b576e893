"""The settings and presets by one name, and the place for presets of your own.

The settings are the fields of `HParams` in `transformer/hparams.py`, the presets are in
`transformer/presets.py`. A preset that is added here is known to `python train.py`:

    PRESETS["mine"] = {"num_blocks": 4, "d_model": 256}
"""

from transformer.hparams import (
    DECODING,
    FIELDS,
    FILE_NAME,
    HParams,
    has_settings,
    load,
    load_each,
    save,
    validate,
)
from transformer.presets import PRESETS, resolve

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
