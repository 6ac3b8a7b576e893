"""Import a checkpoint of an original system as a log directory.

    transformer-tf import --from kyubyong --ckpt original/model-20 \\
        --num_heads 8 --spm original/bpe.model --out logs/imported
    transformer-tf import --from tensor2tensor --ckpt model.ckpt-250 \\
        --num_heads 8 --vocab vocab.subwords --out logs/imported
"""

import argparse
import os
import re
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple, Union

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.compat.names import dialects_by_system, read_rules
from transformer.dialects import DIALECTS
from transformer.hparams import model_settings
from transformer.runtime.files import new_folder, refuse_used
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
KIND_OF = {"tensor2tensor": "subwords"}


def vocabulary_files(
    args: argparse.Namespace, hp: hparams.HParams
) -> List[Tuple[str, bytes]]:
    """Return (name in the log directory, content) of each given vocabulary.

    Raises:
      ValueError: their number, kind or size does not fit the model.
    """
    paths = given_vocabularies(args)
    if hp.joint_vocab and len(paths) > 1:
        raise ValueError(
            f"--src_vocab: expected one vocabulary, as {args.source} has one for both "
            "languages, got two; give --spm or --vocab"
        )
    sizes = [hp.target_vocab_size]
    if not hp.joint_vocab:
        sizes = [hp.source_vocab_size, hp.target_vocab_size]
        if len(paths) == 1:
            paths *= 2
    result = []
    for index, (path, size) in enumerate(zip(paths, sizes)):
        names, content = KINDS[kind_of(path, args)]
        result.append((names[0 if hp.joint_vocab else index + 1], content(path, size)))
    return result


def given_vocabularies(args: argparse.Namespace) -> List[str]:
    """Return the paths of the given vocabularies, two if each side has its own.

    Raises:
      ValueError: the flags contradict each other.
    """
    given = [
        path for path in (args.spm, args.vocab, args.src_vocab, args.tgt_vocab) if path
    ]
    separate = bool(args.src_vocab) and bool(args.tgt_vocab)
    if len(given) > 1 + separate or bool(args.src_vocab) != bool(args.tgt_vocab):
        raise ValueError(
            "vocabulary: expected --spm, or --vocab, or both --src_vocab and "
            "--tgt_vocab, got another combination; remove the others"
        )
    return given


def kind_of(path: str, args: argparse.Namespace) -> str:
    """Return the key in `KINDS` of a given vocabulary."""
    kind = "pieces" if path == args.spm or path.endswith(".model") else "words"
    expected = KIND_OF.get(args.source, kind)
    if path == args.spm and expected != kind:
        raise ValueError(
            f"--spm {path}: expected {expected} of {args.source}, got a "
            "SentencePiece model; give --vocab"
        )
    return expected


def words(path: str, size: int) -> bytes:
    """Return the part of a word list that a model of a given vocabulary size uses.

    The original programs ignore words below a minimum count, so a longer list may only
    be cut between two words with different counts.
    """
    lines = [line.split() for line in read_lines(path) if line.strip()]
    counts = [
        int(line[1])
        for line in lines[size - 1 : size + 1]
        if len(line) > 1 and line[1].isdigit()
    ]
    if len(lines) < size or (
        len(lines) > size and not (len(counts) == 2 and counts[0] > counts[1])
    ):
        raise ValueError(
            f"{path}: expected {size} words, as many as the model has, got {len(lines)}"
        )
    WordVocabulary.check([line[0] for line in lines[:size]], path)
    return "".join("\t".join(line[:2]) + "\n" for line in lines[:size]).encode()


def pieces(path: str, size: int) -> bytes:
    """Return the bytes of a SentencePiece model."""
    return whole_file(Vocabulary(path), size)


def subwords(path: str, size: int) -> bytes:
    """Return the bytes of a subword vocabulary of tensor2tensor."""
    return whole_file(SubwordVocabulary(path), size)


def whole_file(vocabulary: Union[Vocabulary, SubwordVocabulary], size: int) -> bytes:
    """Return the bytes of a vocabulary; raise ValueError if its size is wrong."""
    if vocabulary.size != size:
        raise ValueError(
            f"{vocabulary.path}: expected {size} pieces, as many as the "
            f"model has, got {vocabulary.size}"
        )
    with open(vocabulary.path, "rb") as file:
        return file.read()


# Kind → (the file names in the log directory: joint, source, target; a function of path
# and size that returns the content).
KINDS = {
    "pieces": ((JOINT_MODEL, *SEPARATE_MODELS), pieces),
    "words": ((JOINT_WORDS, *SEPARATE_WORDS), words),
    "subwords": ((JOINT_SUBWORDS, *SEPARATE_SUBWORDS), subwords),
}


def subword_sizes(args: argparse.Namespace) -> Sequence[int]:
    """Return the sizes of two subword vocabularies, which identify their tables.

    Returns:
      () unless there are two such vocabularies.
    """
    paths = given_vocabularies(args)
    if KIND_OF.get(args.source) != "subwords" or len(paths) < 2:
        return ()
    return [SubwordVocabulary(path).size for path in paths]


def differences_to_paper(dialect: str) -> List[str]:
    """Return a line for each decision on which a dialect differs from the paper."""
    paper = DIALECTS["paper"]
    row = DIALECTS[dialect]
    return [
        f"  {name}: {getattr(row, name)} (paper: {getattr(paper, name)})"
        for name in row._fields
        if name != "described_in" and getattr(row, name) != getattr(paper, name)
    ]


def run(args: argparse.Namespace) -> None:
    """Read the checkpoint, check it, and write the log directory."""
    given_vocabularies(args)
    refuse_used(args.out, "--out")
    cli.start_tensorflow(args.verbose)
    # Imported here, because importing TensorFlow takes seconds.
    from transformer.compat import convert
    from transformer.logdir import checkpoints

    checkpoint = re.sub(r"\.(index|data-.*)$", "", args.ckpt)  # of a completed path
    arrays = convert.read(checkpoint, read_rules(args.names) if args.names else ())
    settings = convert.infer_settings(args.source, arrays, subword_sizes(args))
    settings.update(TRAINED_WITH.get(settings["dialect"], {}))
    hp = hparams.HParams(num_heads=args.num_heads, **settings)
    hparams.validate(hp)
    imported = convert.convert(arrays, hp, args.target_space_id)
    vocabularies = vocabulary_files(args, hp)
    with new_folder(args.out, "--out") as made:
        hparams.save(hp, made)
        for name, content in vocabularies:
            with open(os.path.join(made, name), "wb") as file:
                file.write(content)
        described = {"settings": model_settings(hp)}
        checkpoints.write(imported.arrays, made, imported.step, described)
    path = checkpoints.path_of(args.out, imported.step)
    report(path, imported, hp, bool(vocabularies), args.target_space_id)


def report(
    path: str,
    imported: "Imported",
    hp: hparams.HParams,
    has_vocabulary: bool,
    target_space: int,
) -> None:
    """Print what was imported."""
    row = DIALECTS[hp.dialect]
    print_lines(f"{path}: {imported.parameters:,} parameters of {row.described_in}")
    if row.masks_from == "activations":  # so the model attends to padding
        print_lines(
            f"sources are padded to {hp.pad_sources_to} pieces, as in the original"
            if hp.pad_sources_to
            else "sources are not padded: no variable says how long they were "
            "in the original; set pad_sources_to in hparams.json"
        )
    if row.target_space:
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
    made = cli.make_parser("import", __doc__)
    made.add_argument(
        "--from",
        dest="source",
        required=True,
        choices=sorted(dialects_by_system()),
        help="the original system",
    )
    made.add_argument(
        "--ckpt",
        required=True,
        type=cli.path,
        metavar="CHECKPOINT",
        help="the checkpoint, without the extensions of its files",
    )
    made.add_argument(
        "--num_heads",
        type=int,
        required=True,
        metavar="INT",
        help="attention heads; the checkpoint does not say",
    )
    made.add_argument(
        "--out",
        required=True,
        type=cli.path,
        metavar="DIR",
        help="the log directory to write",
    )
    for flag, metavar, text in (
        ("--names", "MAP.json", "regular expressions that rename its variables first"),
        ("--spm", "FILE", "its SentencePiece model"),
        ("--vocab", "FILE", "its list of words; for tensor2tensor, of subwords"),
        ("--src_vocab", "FILE", "the source's list, if the target has its own"),
        ("--tgt_vocab", "FILE", "the target's list"),
    ):
        made.add_argument(flag, metavar=metavar, help=text)
    cli.add_number(made, "target_space_id", 0, "tensor2tensor's target space")
    return made
