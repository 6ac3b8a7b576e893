"""Imports a checkpoint of one of the original systems: a log directory like any other.

    python scripts/import_checkpoint.py --from kyubyong --ckpt original/model-20 \\
        --num_heads 8 --spm original/bpe.model --out logs/imported
"""

import argparse
import os
import sys

import tensorflow.compat.v1 as tf

import hparams
from transformer.dialects import DIALECTS
from transformer.originals import convert, names, recorded
from transformer.runtime import checkpoints
from transformer.text import lines
from transformer.text.subwords import SubwordVocabulary
from transformer.text.vocabulary import (
    JOINT_MODEL,
    JOINT_SUBWORDS,
    JOINT_WORDS,
    SEPARATE_MODELS,
    SEPARATE_SUBWORDS,
    SEPARATE_WORDS,
    Vocabulary,
    WordVocabulary,
)

# What the original systems train with, where it is not a decision of the dialect.
TRAINED_WITH = {"tensor2tensor": {"warmup_steps": 8000}}

# The systems whose vocabularies are all of one kind, a key of KINDS.
KIND_OF = {"tensor2tensor": "subwords"}


def case_of(args):
    """What --verify names; ValueError where it is no case of a whole model."""
    if args.source not in recorded.RECORDED:
        raise ValueError(
            "--verify: found no names of what was recorded of "
            f"{args.source}, wanted a line in transformer/originals/recorded.py"
        )
    case, wanted = recorded.load_case(args.verify), recorded.RECORDED[args.source]
    if wanted.source not in case:
        raise ValueError(
            f"--verify {args.verify}: found no {wanted.source}, wanted a "
            f"case of a whole model of {args.source}"
        )
    return case


def verify(logdir, case, source):
    """Prints how far the model is from a case; ValueError where it is too far."""
    bad, compared = [], 0
    checkpoint = checkpoints.find(logdir, "newest")
    with recorded.Model(hparams.load(logdir), checkpoint) as model:
        for what, difference in recorded.differences(
            model, case, recorded.RECORDED[source]
        ):
            compared += 1
            print(f"{what}: worst relative difference {difference:.2g}")
            if not difference <= recorded.TOLERANCE:
                bad.append(what)
    if not compared:
        raise ValueError("--verify: found nothing to compare in the case")
    if bad:
        raise ValueError(
            f"--verify: {', '.join(bad)} differ, wanted at most "
            f"{recorded.TOLERANCE:g}; do not trust {logdir}"
        )


def vocabulary_files(args, hp):
    """[(name in the log directory, content)] of the vocabularies that are given.

    Raises:
      ValueError: they are not as many, of the kind or of the size that the model wants.
    """
    given = [
        path for path in (args.spm, args.vocab, args.src_vocab, args.tgt_vocab) if path
    ]
    separate = bool(args.src_vocab) and bool(args.tgt_vocab)
    if len(given) > 1 + separate or bool(args.src_vocab) != bool(args.tgt_vocab):
        raise ValueError(
            "vocabulary: wanted --spm, or --vocab, or both of --src_vocab "
            "and --tgt_vocab"
        )
    if hp.joint_vocab and separate:
        raise ValueError(
            f"--src_vocab: {args.source} has one vocabulary for both "
            "languages, wanted --spm or --vocab"
        )
    sizes = (
        (hp.target_vocab_size,)
        if hp.joint_vocab
        else (hp.source_vocab_size, hp.target_vocab_size)
    )
    paths = given if len(given) == len(sizes) else given * len(sizes)
    files = []
    for place, (path, size) in enumerate(zip(paths, sizes)):
        names, content = KINDS[kind_of(path, args)]
        files.append((names[0 if hp.joint_vocab else place + 1], content(path, size)))
    return files


def kind_of(path, args):
    """The key in `KINDS` of a vocabulary that is given."""
    kind = "pieces" if path == args.spm or path.endswith(".model") else "words"
    wanted = KIND_OF.get(args.source, kind)
    if path == args.spm and wanted != kind:
        raise ValueError(
            f"--spm {path}: found a SentencePiece model, wanted --vocab: "
            f"{args.source} has {wanted}, in ids of their own"
        )
    return wanted


def words(path, size):
    """The lines of a word list that a model of a size was trained with.

    The original programs read no words that are rarer than a limit: a longer list may
    only be cut where its counts fall.
    """
    words = [line.split() for line in lines.read_lines(path) if line.strip()]
    counts = [
        int(line[1]) if len(line) > 1 and line[1].isdigit() else None
        for line in words[size - 1 : size + 1]
    ]
    if len(words) < size or (
        len(words) > size and not (None not in counts and counts[0] > counts[1])
    ):
        raise ValueError(
            f"{path}: found {len(words)} words, wanted {size}, as many as the model has"
        )
    WordVocabulary.check([line[0] for line in words[:size]], path)
    return "".join("\t".join(line[:2]) + "\n" for line in words[:size]).encode()


def pieces(path, size):
    """The bytes of a SentencePiece model."""
    return whole_file(Vocabulary(path), size)


def subwords(path, size):
    """The bytes of a subword vocabulary of tensor2tensor."""
    return whole_file(SubwordVocabulary(path), size)


def whole_file(vocabulary, size):
    """The bytes of a vocabulary; ValueError where it is not the model's."""
    if vocabulary.size != size:
        raise ValueError(
            f"{vocabulary.path}: found {vocabulary.size} pieces, wanted "
            f"{size}, as many as the model has"
        )
    with open(vocabulary.path, "rb") as file:
        return file.read()


# The kinds of vocabularies: their names in the log directory (joint, source, target),
# and a function of path and size that returns the content.
KINDS = {
    "pieces": ((JOINT_MODEL, *SEPARATE_MODELS), pieces),
    "words": ((JOINT_WORDS, *SEPARATE_WORDS), words),
    "subwords": ((JOINT_SUBWORDS, *SEPARATE_SUBWORDS), subwords),
}


def sizes_told(args):
    """The sizes of two subword vocabularies, which tell two tables apart, or none."""
    paths = [path for path in (args.src_vocab, args.tgt_vocab) if path]
    if KIND_OF.get(args.source) != "subwords" or len(paths) < 2:
        return ()
    return [SubwordVocabulary(path).size for path in paths]


def write_vocabularies(files, logdir):
    """Writes the vocabularies as train.py does."""
    for name, content in files:
        with open(os.path.join(logdir, name), "wb") as file:
            file.write(content)


def lacks(dialect):
    """Lines that say in what a dialect differs from the paper."""
    paper, row = DIALECTS["paper"], DIALECTS[dialect]
    return [
        f"  {name}: {getattr(row, name)} (paper: {getattr(paper, name)})"
        for name in row._fields
        if name != "described_in" and getattr(row, name) != getattr(paper, name)
    ]


def run(args):
    """Reads, checks, writes, verifies."""
    arrays = convert.read(args.ckpt)
    told = convert.settings_of(args.source, arrays, sizes_told(args))
    told.update(TRAINED_WITH.get(told["dialect"], {}))
    hp = hparams.HParams(num_heads=args.num_heads, **told)
    hparams.validate(hp)
    case = case_of(args) if args.verify else {"meta": {}}
    target_space = args.target_space_id
    if target_space is None:
        target_space = case["meta"].get("target_space_id", 0)
    imported = convert.convert(arrays, hp, target_space)
    files = vocabulary_files(args, hp)
    if checkpoints.steps(args.out) or os.path.exists(
        os.path.join(args.out, hparams.FILE_NAME)
    ):
        raise ValueError(f"--out {args.out}: found a log directory, wanted a new one")
    hparams.save(hp, args.out)
    write_vocabularies(files, args.out)
    path = convert.write(imported, args.out)
    report(path, imported, hp, files, target_space)
    if args.verify:
        verify(args.out, case, args.source)


def report(path, imported, hp, files, target_space):
    """Prints what was imported."""
    count = sum(
        array.size
        for name, array in imported.arrays.items()
        if not name.endswith(convert.SLOTS + convert.POWERS + ("_step",))
    )
    print(f"{path}: {count:,} parameters of {DIALECTS[hp.dialect].described_in}")
    if DIALECTS[hp.dialect].masks_from == "activations":  # so padding is attended to
        print(
            f"sources are padded to {hp.pad_sources_to} pieces, as there"
            if hp.pad_sources_to
            else "sources are not padded: how long they were "
            "there no variable tells; hparams.json may, as pad_sources_to"
        )
    if DIALECTS[hp.dialect].target_space:
        print(f"target space {target_space} (--target_space_id)")
    print(
        "the optimizer's moments too: training goes on exactly"
        if imported.has_moments
        else "no moments of the optimizer: Adam starts afresh"
    )
    print(f"dialect {hp.dialect}, unlike the paper:", *lacks(hp.dialect), sep="\n")
    if not files:
        print(
            "no vocabulary: imported for ids only; eval.py and scripts/translate.py "
            "need one"
        )


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        choices=sorted(names.systems()),
        help="the original system",
    )
    parser.add_argument(
        "--ckpt",
        required=True,
        metavar="PREFIX",
        help="the checkpoint, without the endings of its files",
    )
    parser.add_argument(
        "--num_heads",
        "--num-heads",
        type=int,
        required=True,
        metavar="INT",
        help="attention heads; no checkpoint tells",
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="the log directory that is written"
    )
    parser.add_argument("--spm", metavar="FILE", help="its SentencePiece model")
    parser.add_argument(
        "--vocab",
        metavar="FILE",
        help="its list of words; of tensor2tensor, of subwords",
    )
    parser.add_argument(
        "--src_vocab",
        "--src-vocab",
        metavar="FILE",
        help="the source's, where the target has another",
    )
    parser.add_argument(
        "--tgt_vocab", "--tgt-vocab", metavar="FILE", help="the target's"
    )
    parser.add_argument(
        "--target_space_id",
        "--target-space-id",
        type=int,
        metavar="N",
        help="tensor2tensor's kind of target [that of --verify, or 0]",
    )
    parser.add_argument(
        "--verify",
        metavar="CASE.npz",
        help="recorded inputs and outputs to compare with",
    )
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        run(args)
    except (ValueError, OSError) as error:
        sys.exit(f"import_checkpoint.py: {error}")


if __name__ == "__main__":
    main()
