"""Encode a large corpus part by part: in several processes, or after an interruption.

A part is what became of CHUNK pairs of lines: the pieces of those that were kept. It
depends on the pairs, the recipe and its name alone, so the same parts come of any
number of processes, in any order. `transformer.text.corpus` joins them.
"""

import contextlib
import functools
import hashlib
import io
import itertools
import json
import os
import random
import shutil
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from transformer.runtime.files import named, refuse_links
from transformer.runtime.pool import Pool, serve_process
from transformer.text.bpe_dropout import DropoutVocabulary
from transformer.text.filters import RULED, Rules
from transformer.text.vocabulary import Vocabulary
from transformer.text.vocabulary_files import load_vocabularies

CHUNK = 10000  # pairs of lines in a part
MODULE = "transformer.text.parts"
SUM = hashlib.sha256().digest_size  # bytes before a part that verify it


class Recipe(NamedTuple):
    """How text becomes pieces."""

    folder: str  # holds the vocabularies
    rules: Rules  # which pairs are kept
    bpe_dropout: float = 0.0  # the probability of skipping a merge


class Block(NamedTuple):
    """Pairs of lines that become a part."""

    name: str  # of the part: "train-0-0-12"
    sources: Sequence[str]
    targets: Sequence[str]


class Part(NamedTuple):
    """The pieces of the pairs of a block that were kept, one side after the other."""

    source_ids: np.ndarray  # of all sentences, concatenated
    source_lengths: np.ndarray  # int32 [pairs]
    target_ids: np.ndarray
    target_lengths: np.ndarray
    dropped: np.ndarray  # int64 [reasons], in the order of RULED

    def packed(self) -> bytes:
        """Return the part as bytes, behind their checksum."""
        stream = io.BytesIO()
        for array in self:
            np.save(stream, array, allow_pickle=False)
        content = stream.getvalue()
        return hashlib.sha256(content).digest() + content

    @classmethod
    def unpacked(cls, content: bytes) -> Optional["Part"]:
        """Return the part that bytes hold, None where they are not what was packed."""
        if hashlib.sha256(content[SUM:]).digest() != content[:SUM]:
            return None
        stream = io.BytesIO(content[SUM:])
        return cls(*[np.load(stream, allow_pickle=False) for _ in cls._fields])


def folders_in(work: str) -> Tuple[str, str]:
    """Return a folder for what will be moved to OUT, and one for finished parts.

    Parts may be there already: of the same command, which was killed.
    """
    made, parts = os.path.join(work, "made"), os.path.join(work, "parts")
    if os.path.isdir(made):
        shutil.rmtree(made)
    refuse_links(work)
    os.makedirs(parts, exist_ok=True)
    os.mkdir(made)
    return made, parts


def read_part(folder: str, name: str) -> Optional[Part]:
    """Return a part of a folder, None where there is none that is whole."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return Part.unpacked(file.read())


class Encoder:
    """Makes parts by a recipe.

    Args:
      recipe: how text becomes pieces.
      threads: in how many of them SentencePiece encodes; -1: one for each core.
    """

    def __init__(self, recipe: Recipe, threads: int = -1):
        self._rules, self._draw = recipe.rules, random.Random()
        self._sides = self._vocabularies(recipe)
        for vocabulary in self._sides:
            vocabulary.threads = threads

    def _vocabularies(self, recipe: Recipe) -> Tuple[Vocabulary, Vocabulary]:
        """Load the vocabularies of source and target, with dropout if asked for."""
        *sides, joint = load_vocabularies(recipe.folder)
        if recipe.bpe_dropout:
            sides = [
                DropoutVocabulary(each.path, recipe.bpe_dropout, self._draw)
                for each in sides
            ]
        return sides[0], sides[0 if joint else 1]

    def encode(self, block: Block) -> bytes:
        """Return the part of a block, packed; dropout is drawn by the block's name."""
        self._draw.seed(block.name)
        lines = block.sources, block.targets
        encoded = [
            vocabulary.encode_lines(side)
            for vocabulary, side in zip(self._sides, lines)
        ]
        kept, dropped = ([], []), dict.fromkeys(RULED, 0)
        for texts, ids in zip(zip(*lines), zip(*encoded)):
            reason = self._rules.reason(texts, ids)
            if reason:
                dropped[reason] += 1
                continue
            for side, one in zip(kept, ids):
                side.append(one)
        source, target = map(_arrays, kept, self._sides)
        return Part(*source, *target, np.array([*dropped.values()], np.int64)).packed()

    def answer(self, request: bytes) -> bytes:
        """Return the packed part of a block that `_request` made bytes of."""
        name, *lines = request.decode().split("\n")
        half = len(lines) // 2
        return self.encode(Block(name, lines[:half], lines[half:]))


def _arrays(
    sentences: List[List[int]], vocabulary: Vocabulary
) -> Tuple[np.ndarray, np.ndarray]:
    """Return the ids of all sentences, and the length of each."""
    lengths = np.array([len(ids) for ids in sentences], np.int32)
    every = itertools.chain.from_iterable(sentences)
    return np.fromiter(every, id_type(vocabulary), lengths.sum()), lengths


def id_type(vocabulary: Vocabulary) -> type:
    """Return the type of the ids of a vocabulary on disk."""
    return np.uint16 if vocabulary.size < 2**16 else np.int32


def write_parts(blocks: Iterable[Block], recipe: Recipe, workers: int) -> Iterator[str]:
    """Write the part of each block to the folder of the recipe; yield its name.

    This process writes all of them; workers only encode.

    Args:
      blocks: in the order in which their text is read.
      recipe: how text becomes pieces.
      workers: how many processes encode; 1: only this one.
    """
    with contextlib.ExitStack() as stack:
        if workers > 1:
            pool = stack.enter_context(Pool(MODULE, _settings(recipe), workers))
            requests = ((block.name, _request(block)) for block in blocks)
            parts = pool.answers(requests)
        else:
            encoder = Encoder(recipe)
            parts = ((block.name, encoder.encode(block)) for block in blocks)
        for name, part in parts:
            path = os.path.join(recipe.folder, name)
            with named(path), open(path, "wb") as file:
                file.write(part)
            yield name


def _request(block: Block) -> bytes:
    """Return a block as bytes: no line contains a line feed."""
    return "\n".join([block.name, *block.sources, *block.targets]).encode()


def _settings(recipe: Recipe) -> str:
    """Return a recipe as text."""
    return json.dumps(recipe._replace(rules=recipe.rules._asdict())._asdict())


def serve_requests(settings: str) -> None:
    """Be a worker: encode blocks from standard input until there are no more.

    Args:
      settings: what `_settings` made of the recipe.
    """
    recipe = Recipe(**json.loads(settings))
    recipe = recipe._replace(rules=Rules(**recipe.rules))
    encoder = functools.lru_cache()(lambda: Encoder(recipe, threads=1))
    serve_process(lambda request: encoder().answer(request))
