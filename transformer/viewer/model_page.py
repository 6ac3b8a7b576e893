"""A checkpoint → a page that holds the model: it translates without a server."""

import base64
import os
import zlib
from typing import Dict, Optional, Sequence, Tuple

from transformer.exports.weights import INT8, export_weights
from transformer.hparams import HParams
from transformer.text.corpus import NEUTRAL_LANGUAGES
from transformer.text.data_folder import read_languages
from transformer.viewer import page_files
from transformer.viewer.example import inspect_example
from transformer.viewer.models import (
    checkpoint_name,
    describe_checkpoint,
    describe_model,
)
from transformer.viewer.searches import RecentTranslator

PAGE = "index.html"
PART = "page.model.{}.js"
PART_SIZE = 2**20 // 3 * 4  # characters of base64 for a megabyte
PIECE_SIZE = 2**16  # likewise, of an element of the page


def make_model_page(
    hp: HParams,
    checkpoint: str,
    examples: Sequence[str] = (),
    weights: str = INT8,
    languages: Optional[Sequence[str]] = None,
    split: bool = False,
    references: Sequence[Tuple[str, str]] = (),
    has_example: bool = False,
    docs: Optional[str] = None,
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
      has_example: whether one of `examples` is inspected now, so that the page shows it
        before its model is loaded. Otherwise, it opens with the first one.
      docs: the address of the documentation as a site, which the page links to.

    Raises:
      EngineError: JavaScript cannot compute the model.
    """
    exported = export_weights(hp, checkpoint, weights)
    languages = languages or read_languages(hp.data) or NEUTRAL_LANGUAGES
    logdir = os.path.dirname(checkpoint)
    name = checkpoint_name(checkpoint)
    about = describe_checkpoint(hp, checkpoint, bool(examples))
    about.append(f"weights in {weights}")
    example = None
    if has_example and examples:
        with RecentTranslator.for_settings(
            hp, logdir, hp.num_hypotheses, True
        ) as translator:
            translator.restore(checkpoint)
            example = inspect_example(translator, examples, references)
    text = encode_base64(zlib.compress(exported, 9))
    size = PART_SIZE if split else PIECE_SIZE
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    parts = {
        PART.format(i + 1): f'modelParts.push("{piece}");\n'
        for i, piece in enumerate(pieces if split else [])
    }
    html, _ = page_files.make_page(
        {
            "models": [{**describe_model(hp, logdir, name, languages), "about": about}],
            "examples": list(examples),
            "example": example,
            "references": list(references),
            "engine": "".join(map(page_files.read_file, page_files.WORKER)),
            "kernels": encode_base64(page_files.read_bytes(page_files.KERNELS)),
            "parts": list(parts),
            "docs": docs,
        },
        [] if split else pieces,
    )
    return {PAGE: html, **parts}


def encode_base64(content: bytes) -> str:
    """Encode bytes as text."""
    return base64.b64encode(content).decode("ascii")
