"""Import a checkpoint of an original system as a log directory.

    transformer-tf import --from kyubyong --ckpt original/model-20 \\
        --num_heads 8 --spm original/bpe.model --out logs/imported
    transformer-tf import --from tensor2tensor --ckpt model.ckpt-250 \\
        --num_heads 8 --vocab vocab.subwords --out logs/imported
"""

import argparse
import os
import re
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Sequence,
    Tuple,
    Union,
)

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.compat.names import dialects_by_system, read_rules
from transformer.dialects import DIALECTS
from transformer.hparams import model_settings
from transformer.runtime.files import new_folder, read_file, refuse_used, sweep_beside
from transformer.text.lines import read_lines
from transformer.text.vocabulary import (
    JOINT_MODEL,
    JOINT_SUBWORDS,
    JOINT_WORDS,
    SEPARATE_MODELS,
    SEPARATE_SUBWORDS,
    SEPARATE_WORDS,
    SubwordVocabulary,
    Vocabulary,
    WordVocabulary,
)

if TYPE_CHECKING:
    from transformer.compat.convert import Imported

# Training settings of an original system that are not part of its dialect.
TRAINED_WITH: Dict[str, Dict[str, Any]] = {
    "kyubyong": {"dropout_rate": 0.3},
    "tensor2tensor": {"warmup_steps": 8000},
}

# The systems whose vocabularies are all of one kind → that kind, a key of KINDS.
KIND_OF_SYSTEM = {"tensor2tensor": "subwords"}


def choose_vocabularies(
    spm: str, vocab: str, src_vocab: str, tgt_vocab: str
) -> List[str]:
    """Return the paths of the given vocabularies, two if each side has its own.

    Args:
      spm, vocab, src_vocab, tgt_vocab: the values of the flags; "" or None: not given.

    Raises:
      ValueError: the flags contradict each other.
    """
    paths = [path for path in (spm, vocab, src_vocab, tgt_vocab) if path]
    is_separate = bool(src_vocab) and bool(tgt_vocab)
    if len(paths) > 1 + is_separate or bool(src_vocab) != bool(tgt_vocab):
        raise ValueError(
            "vocabulary: expected --spm, or --vocab, or both --src_vocab and "
            "--tgt_vocab, got another combination"
        )
    return paths


def choose_kind(path: str, system: str, is_spm: bool) -> str:
    """Choose the kind of a vocabulary, a key of KINDS.

    Args:
      path: the vocabulary.
      system: the original system.
      is_spm: whether --spm named the vocabulary.
    """
    kind = "pieces" if is_spm or path.endswith(".model") else "words"
    system_kind = KIND_OF_SYSTEM.get(system, kind)
    if is_spm and system_kind != kind:
        raise ValueError(
            f"--spm {path}: expected {system_kind} of {system}, got a "
            "SentencePiece model; give --vocab"
        )
    return system_kind


class VocabularyFile(NamedTuple):
    """A vocabulary of the log directory."""

    name: str
    content: bytes


def read_vocabularies(
    paths: Sequence[str], system: str, is_spm: bool, hp: hparams.HParams
) -> List[VocabularyFile]:
    """Read the given vocabularies.

    Args:
      paths: from `choose_vocabularies`.
      system, is_spm: as in `choose_kind`.
      hp: the settings of the model.

    Raises:
      ValueError: their number, kind or size does not fit the model.
    """
    if hp.joint_vocab and len(paths) > 1:
        raise ValueError(
            f"--src_vocab: expected one vocabulary, as {system} has one for both "
            "languages, got two; give --spm or --vocab"
        )
    sizes = [hp.target_vocab_size]
    if not hp.joint_vocab:
        sizes = [hp.source_vocab_size, hp.target_vocab_size]
        if len(paths) == 1:
            paths = [paths[0], paths[0]]
    files = []
    for side, (path, size) in enumerate(zip(paths, sizes)):
        kind = KINDS[choose_kind(path, system, is_spm)]
        name = kind.joint_name if hp.joint_vocab else kind.separate_names[side]
        files.append(VocabularyFile(name, kind.read(path, size)))
    return files


def read_words(path: str, size: int) -> bytes:
    """Read the part of a word list that a model with this vocabulary size uses.

    The original programs ignore words below a minimum count, so a longer list may only
    be cut between two words with different counts.
    """
    lines = [line.split() for line in read_lines(path) if line.strip()]
    counts = [
        int(line[1])
        for line in lines[size - 1 : size + 1]
        if len(line) > 1 and line[1].isdigit()
    ]
    can_be_cut = len(counts) == 2 and counts[0] > counts[1]
    if len(lines) < size or (len(lines) > size and not can_be_cut):
        raise ValueError(
            f"{path}: expected {size} words, as many as the model has, got {len(lines)}"
        )
    WordVocabulary.check([line[0] for line in lines[:size]], path)
    return "".join("\t".join(line[:2]) + "\n" for line in lines[:size]).encode()


def read_sentencepiece(path: str, size: int) -> bytes:
    """Read a SentencePiece model."""
    return read_whole(Vocabulary(path), size)


def read_subwords(path: str, size: int) -> bytes:
    """Read a subword vocabulary of tensor2tensor."""
    return read_whole(SubwordVocabulary(path), size)


def read_whole(vocabulary: Union[Vocabulary, SubwordVocabulary], size: int) -> bytes:
    """Read the file of a vocabulary; raise ValueError if its size is wrong."""
    if vocabulary.size != size:
        raise ValueError(
            f"{vocabulary.path}: expected {size} pieces, as many as the "
            f"model has, got {vocabulary.size}"
        )
    return read_file(vocabulary.path)


class Kind(NamedTuple):
    """A kind of vocabulary."""

    joint_name: str  # the file in the log directory, for both languages
    separate_names: Tuple[str, str]  # the files for source and target
    read: Callable[[str, int], bytes]  # function of path and size → content


KINDS = {
    "pieces": Kind(JOINT_MODEL, SEPARATE_MODELS, read_sentencepiece),
    "words": Kind(JOINT_WORDS, SEPARATE_WORDS, read_words),
    "subwords": Kind(JOINT_SUBWORDS, SEPARATE_SUBWORDS, read_subwords),
}


def subword_sizes(paths: Sequence[str], system: str) -> List[int]:
    """Return the sizes of two subword vocabularies, which identify their tables.

    Returns:
      [] unless there are two such vocabularies.
    """
    if KIND_OF_SYSTEM.get(system) != "subwords" or len(paths) < 2:
        return []
    return [SubwordVocabulary(path).size for path in paths]


def differences_to_paper(dialect: str) -> List[str]:
    """List the decisions in which a dialect differs from the paper, one line each."""
    paper = DIALECTS["paper"]
    original = DIALECTS[dialect]
    return [
        f"  {name}: {getattr(original, name)} (paper: {getattr(paper, name)})"
        for name in original._fields
        if name != "described_in" and getattr(original, name) != getattr(paper, name)
    ]


def run(args: argparse.Namespace) -> None:
    """Read the checkpoint, check it, and write the log directory."""
    paths = choose_vocabularies(args.spm, args.vocab, args.src_vocab, args.tgt_vocab)
    sweep_beside(args.out)
    refuse_used(args.out, "--out")
    cli.start_tensorflow(args.verbose)
    # Imported here, because importing TensorFlow takes seconds.
    from transformer.compat import convert
    from transformer.logdir import checkpoints
    from transformer.logdir.names import checkpoint_path

    # The shell may have completed the path.
    checkpoint = re.sub(r"\.(index|data-.*)$", "", args.ckpt)
    arrays = convert.read(checkpoint, read_rules(args.names) if args.names else ())
    settings = convert.infer_settings(
        args.source, arrays, subword_sizes(paths, args.source), args.num_heads
    )
    settings.update(TRAINED_WITH.get(settings["dialect"], {}))
    hp = hparams.HParams(num_heads=args.num_heads, **settings)
    hparams.validate(hp)
    imported = convert.convert(arrays, hp, args.target_space_id)
    vocabularies = read_vocabularies(paths, args.source, bool(args.spm), hp)
    with new_folder(args.out, "--out") as logdir:
        hparams.save(hp, logdir)
        for vocabulary in vocabularies:
            with open(os.path.join(logdir, vocabulary.name), "wb") as file:
                file.write(vocabulary.content)
        description = {"settings": model_settings(hp)}
        checkpoints.save_arrays(imported.arrays, logdir, imported.step, description)
    path = checkpoint_path(args.out, imported.step)
    print_report(path, imported, hp, bool(vocabularies), args.target_space_id)


def print_report(
    path: str,
    imported: "Imported",
    hp: hparams.HParams,
    has_vocabulary: bool,
    target_space: int,
) -> None:
    """Print what was imported."""
    dialect = DIALECTS[hp.dialect]
    print_lines(f"{path}: {imported.parameters:,} parameters of {dialect.described_in}")
    if dialect.masks_from == "activations":  # so the model attends to padding
        print_lines(
            f"sources are padded to {hp.pad_sources_to} pieces, as in the original"
            if hp.pad_sources_to
            else "sources are not padded: no variable says how long they were "
            "in the original; set pad_sources_to in hparams.json"
        )
    if dialect.target_space:
        print_lines(f"target space {target_space} (--target_space_id)")
    print_lines(
        "with the moments of the optimizer: Adam continues where it was"
        if imported.has_moments
        else "without moments of the optimizer: Adam starts afresh"
    )
    print_lines(
        f"dialect {hp.dialect}, unlike the paper:", *differences_to_paper(hp.dialect)
    )
    print_lines(
        "no data folder: to train or score, prepare one, and pass it with --data"
    )
    if not has_vocabulary:
        print_lines("no vocabulary: translating text needs one; see --spm and --vocab")


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("import", __doc__)
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        choices=sorted(dialects_by_system()),
        help="the original system",
    )
    parser.add_argument(
        "--ckpt",
        required=True,
        type=cli.path,
        metavar="CHECKPOINT",
        help="the checkpoint, without the extensions of its files",
    )
    parser.add_argument(
        "--num_heads",
        type=int,
        required=True,
        metavar="INT",
        help="attention heads; the checkpoint does not say",
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="the log directory to write"
    )
    for flag, metavar, text in (
        ("--names", "MAP.json", "regular expressions that rename its variables first"),
        ("--spm", "FILE", "its SentencePiece model"),
        ("--vocab", "FILE", "its list of words; for tensor2tensor, of subwords"),
        ("--src_vocab", "FILE", "the source's list, if the target has its own"),
        ("--tgt_vocab", "FILE", "the target's list"),
    ):
        parser.add_argument(flag, metavar=metavar, help=text)
    cli.add_number(parser, "target_space_id", 0, "tensor2tensor's target space")
    return parser
