"""The sequential recommender of SASRec as a folder: settings and variables.

Its checkpoints have the names that `transformer.compat.sasrec` makes; the settings are
in the shapes, but for the number of heads. `examples/recommend.py` runs the folder.
"""

import json
import os
import re
from typing import Dict, List, NamedTuple

import numpy as np

from transformer.runtime import files

FILE_NAME = "recommender.json"


class Settings(NamedTuple):
    """What determines the shapes of the variables."""

    items: int  # they have the ids 1 ... items; 0 is padding
    max_length: int  # of a sequence, which is padded in front
    num_units: int  # D
    num_blocks: int
    num_heads: int


def shapes(settings: Settings) -> Dict[str, List[int]]:
    """Return the variables of the recommender: name → shape."""
    width = settings.num_units
    kernels = {f"self_attention/dense{i}": [width, width] for i in ("", "_1", "_2")}
    kernels.update(
        (f"multihead_attention/conv1d{i}", [1, width, width]) for i in ("", "_1")
    )
    block = {f"{scope}/kernel": shape for scope, shape in kernels.items()}
    block.update((f"{scope}/bias", [width]) for scope in kernels)
    norms = {"Variable": [width], "Variable_1": [width]}
    block.update((f"{ln}/{name}", [width]) for ln in ("ln", "ln_1") for name in norms)
    result = {
        "SASRec/input_embeddings/lookup_table": [settings.items + 1, width],
        "SASRec/dec_pos/lookup_table": [settings.max_length, width],
        **{f"SASRec/ln/{name}": shape for name, shape in norms.items()},
    }
    for i in range(settings.num_blocks):
        result.update(
            (f"SASRec/num_blocks_{i}/{name}", shape) for name, shape in block.items()
        )
    return result


def settings_of(arrays: Dict[str, np.ndarray], num_heads: int) -> Settings:
    """Return the settings that the variables of a checkpoint imply.

    Raises:
      ValueError: they are not those of a recommender.
    """
    tables = [f"SASRec/{name}/lookup_table" for name in ("input_embeddings", "dec_pos")]
    for name in tables:
        if name not in arrays or arrays[name].ndim != 2:
            raise ValueError(f"{name}: found no such table, wanted one of SASRec")
    blocks = [re.match(r"SASRec/num_blocks_(\d+)/", name) for name in arrays]
    (rows, width), (length, _) = (arrays[name].shape for name in tables)
    if num_heads < 1 or width % num_heads:
        raise ValueError(
            f"--num_heads: found {num_heads}, wanted a divisor of {width}, the width"
        )
    numbers = {int(match.group(1)) for match in blocks if match}
    return Settings(rows - 1, length, width, len(numbers), num_heads)


def write(arrays: Dict[str, np.ndarray], num_heads: int, folder: str) -> Settings:
    """Write the folder of a recommender; what its optimizer kept is left behind.

    Raises:
      ValueError: a variable is missing, has another shape, or would be left over.
    """
    # Only here: TensorFlow, which they import, takes seconds.
    from transformer.originals.convert import STEP, refuse_leftover
    from transformer.runtime import checkpoints

    settings, left = settings_of(arrays, num_heads), dict(arrays)
    step = int(left.pop(STEP, 0))
    taken = {}
    for name, shape in shapes(settings).items():
        found = left.pop(name, None)
        if found is None or list(found.shape) != shape:
            raise ValueError(
                f"{name}: found {'nothing' if found is None else list(found.shape)}, "
                f"wanted shape {shape}"
            )
        taken[name] = np.asarray(found, np.float32)
    refuse_leftover(left, set(taken))
    save(settings, folder)
    taken[STEP] = np.asarray(step, np.int64)
    checkpoints.write(taken, folder, step)
    return settings


def save(settings: Settings, folder: str) -> None:
    """Write the settings to a folder, which is made."""
    os.makedirs(folder, exist_ok=True)
    with files.replaced(os.path.join(folder, FILE_NAME), "w") as file:
        json.dump(settings._asdict(), file, indent=2)
        file.write("\n")


def load(folder: str) -> Settings:
    """Return the settings in a folder.

    Raises:
      ValueError: the file is not one of a recommender.
    """
    path = os.path.join(folder, FILE_NAME)
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict) or set(found) != set(Settings._fields):
        raise ValueError(f"{path}: found {found}, wanted {list(Settings._fields)}")
    return Settings(**found)
