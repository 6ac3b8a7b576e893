"""A checkpoint → a page that holds the model: it translates without a server."""

import base64
import os
from typing import Dict, Optional, Sequence, Tuple

from transformer.exports.weights import INT8, export_weights
from transformer.hparams import HParams
from transformer.text.corpus import NEUTRAL_LANGUAGES
from transformer.text.data_folder import read_languages
from transformer.viewer import page_files
from transformer.viewer.models import (
    checkpoint_name,
    describe_checkpoint,
    describe_model,
    inspect_example,
)
from transformer.viewer.searches import RecentTranslator

PAGE = "index.html"
PART = "page.model.{}.js"
PART_SIZE = 2**20 // 3 * 4  # characters of base64 for a megabyte


def make_model_page(
    hp: HParams,
    checkpoint: str,
    examples: Sequence[str] = (),
    weights: str = INT8,
    languages: Optional[Sequence[str]] = None,
    split: bool = False,
    references: Sequence[Tuple[str, str]] = (),
    example: Optional[str] = None,
) -> Dict[str, str]:
    """Return the files of the page: name → content. PAGE is the page.

    Args:
      hp: the settings of the model and of its search.
      checkpoint: its path, without file extensions.
      examples: sentences that the page offers.
      weights: the type of the weights, a member of `exports.weights.TYPES`.
      languages: the source and target languages; None: those of the data folder, or
        NEUTRAL_LANGUAGES if it is missing.
      split: whether the weights are in scripts of their own, PART, beside the page.
        (From a folder, a page can load scripts, but no other files.)
      references: sentences with their references, which the page lists, the worst
        translations first.
      example: the sentence that the page shows at once, before its model is loaded;
        None: it translates the first of `examples`.

    Raises:
      EngineError: JavaScript cannot compute the model.
    """
    exported = export_weights(hp, checkpoint, weights)
    languages = languages or read_languages(hp.data) or NEUTRAL_LANGUAGES
    logdir = os.path.dirname(checkpoint)
    name = checkpoint_name(checkpoint)
    about = [*describe_checkpoint(hp, checkpoint), f"weights in {weights}"]
    kernels = map(page_files.read_bytes, page_files.KERNELS)
    parts: Dict[str, str] = {}
    text = encode_base64(exported)
    if split:
        for start in range(0, len(text), PART_SIZE):
            part = text[start : start + PART_SIZE]
            parts[PART.format(len(parts) + 1)] = f'modelParts.push("{part}");\n'
    html, _ = page_files.make_page(
        {
            "models": [{**describe_model(hp, logdir, name, languages), "about": about}],
            "examples": list(examples),
            "example": _inspect(hp, checkpoint, example) if example else None,
            "references": list(references),
            "engine": "".join(map(page_files.read_file, page_files.WORKER)),
            "kernels": list(map(encode_base64, kernels)),
            "weights": "" if split else text,
            "parts": list(parts),
        }
    )
    return {PAGE: html, **parts}


def _inspect(hp, checkpoint, line):
    """Inspect a line with a checkpoint, as TensorFlow computes it."""
    translator = RecentTranslator.for_settings(
        hp, os.path.dirname(checkpoint), hp.num_hypotheses, True
    )
    with translator:
        translator.restore(checkpoint)
        return inspect_example(translator, line)


def encode_base64(content: bytes) -> str:
    """Encode bytes as text."""
    return base64.b64encode(content).decode("ascii")
