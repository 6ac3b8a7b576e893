"""Import a checkpoint of an original system: it becomes a log directory.

    Examples:

    python scripts/import_checkpoint.py --from kyubyong --ckpt original/model-20 \\
        --num_heads 8 --spm original/bpe.model --out logs/imported
    python scripts/import_checkpoint.py --from tensor2tensor --ckpt model.ckpt-250 \\
        --num_heads 8 --vocab vocab.subwords --out logs/imported
    python scripts/import_checkpoint.py --from sasrec --ckpt SASRec/model.ckpt \\
        --num_heads 1 --out logs/recommender    (for examples/recommend.py)
"""

import os
from typing import Any, Dict, List, Sequence, Tuple

import hparams
from transformer.dialects import DIALECTS
from transformer.originals.names import rules_in, systems
from transformer.runtime import cli
from transformer.runtime.folders import new_folder, refuse_used
from transformer.runtime.terminal import say
from transformer.text.lines import read_lines
from transformer.text.subwords import SubwordVocabulary
from transformer.text.vocabulary import Vocabulary, WordVocabulary
from transformer.text.vocabulary_files import (
    JOINT_MODEL,
    JOINT_SUBWORDS,
    JOINT_WORDS,
    SEPARATE_MODELS,
    SEPARATE_SUBWORDS,
    SEPARATE_WORDS,
)

SASREC = "sasrec"  # no translator: a recommender, see originals/recommender.py

# Settings with which an original system was trained, other than those of its dialect.
TRAINED_WITH = {"tensor2tensor": {"warmup_steps": 8000}}

# The systems whose vocabularies are all of one kind, a key of KINDS.
KIND_OF = {"tensor2tensor": "subwords"}


def vocabulary_files(args, hp) -> List[Tuple[str, bytes]]:
    """Return (name in the log directory, content) of each given vocabulary.

    Raises:
      ValueError: they are not as many, of the kind or of the size that the model needs.
    """
    given, separate = given_vocabularies(args)
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
    result = []
    for place, (path, size) in enumerate(zip(paths, sizes)):
        names, content = KINDS[kind_of(path, args)]
        result.append((names[0 if hp.joint_vocab else place + 1], content(path, size)))
    return result


def given_vocabularies(args) -> Tuple[List[str], bool]:
    """Return (the paths of the given vocabularies, whether each side has its own).

    Raises:
      ValueError: the flags contradict each other.
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
    return given, separate


def kind_of(path: str, args) -> str:
    """Return the key in `KINDS` of a given vocabulary."""
    kind = "pieces" if path == args.spm or path.endswith(".model") else "words"
    wanted = KIND_OF.get(args.source, kind)
    if path == args.spm and wanted != kind:
        raise ValueError(
            f"--spm {path}: found a SentencePiece model, wanted --vocab: "
            f"{args.source} has {wanted}, in ids of their own"
        )
    return wanted


def words(path: str, size: int) -> bytes:
    """Return the part of a word list that a model of a size was trained with.

    The original programs ignore words that are rarer than a limit: a longer list may
    only be cut where its counts fall.
    """
    lines = [line.split() for line in read_lines(path) if line.strip()]
    counts = [
        int(line[1]) if len(line) > 1 and line[1].isdigit() else None
        for line in lines[size - 1 : size + 1]
    ]
    if len(lines) < size or (
        len(lines) > size and not (None not in counts and counts[0] > counts[1])
    ):
        raise ValueError(
            f"{path}: found {len(lines)} words, wanted {size}, as many as the model has"
        )
    WordVocabulary.check([line[0] for line in lines[:size]], path)
    return "".join("\t".join(line[:2]) + "\n" for line in lines[:size]).encode()


def pieces(path: str, size: int) -> bytes:
    """Return the bytes of a SentencePiece model."""
    return whole_file(Vocabulary(path), size)


def subwords(path: str, size: int) -> bytes:
    """Return the bytes of a subword vocabulary of tensor2tensor."""
    return whole_file(SubwordVocabulary(path), size)


def whole_file(vocabulary, size):
    """Return the bytes of a vocabulary; ValueError if its size is not the model's."""
    if vocabulary.size != size:
        raise ValueError(
            f"{vocabulary.path}: found {vocabulary.size} pieces, wanted "
            f"{size}, as many as the model has"
        )
    with open(vocabulary.path, "rb") as file:
        return file.read()


# kind → (its file names in the log directory: joint, source, target; a function of path
# and size that returns the content).
KINDS = {
    "pieces": ((JOINT_MODEL, *SEPARATE_MODELS), pieces),
    "words": ((JOINT_WORDS, *SEPARATE_WORDS), words),
    "subwords": ((JOINT_SUBWORDS, *SEPARATE_SUBWORDS), subwords),
}


def subword_sizes(args) -> Sequence[int]:
    """Return the sizes of two subword vocabularies, or none: they tell tables apart."""
    paths = [path for path in (args.src_vocab, args.tgt_vocab) if path]
    if KIND_OF.get(args.source) != "subwords" or len(paths) < 2:
        return ()
    return [SubwordVocabulary(path).size for path in paths]


def case_of(args) -> Dict[str, Any]:
    """Return the case that --verify names; ValueError if it is of no whole model."""
    from transformer.originals import recorded  # needs TensorFlow

    if args.source not in recorded.RECORDED:
        raise ValueError(
            "--verify: found no names of the recorded arrays of "
            f"{args.source}, wanted a line in transformer/originals/recorded.py"
        )
    case, wanted = recorded.load_case(args.verify), recorded.RECORDED[args.source]
    if wanted.source not in case:
        raise ValueError(
            f"--verify {args.verify}: found no {wanted.source}, wanted a "
            f"case of a whole model of {args.source}"
        )
    return case


def verify(logdir: str, case: Dict[str, Any], source: str) -> None:
    """Print how far the model is from a case; ValueError where it is too far."""
    from transformer.originals import recorded  # needs TensorFlow
    from transformer.runtime import checkpoints

    bad, compared = [], 0
    checkpoint = checkpoints.find(logdir, "newest")
    with recorded.Model(hparams.load(logdir), checkpoint) as model:
        for what, difference in recorded.differences(
            model, case, recorded.RECORDED[source]
        ):
            compared += 1
            say(f"{what}: worst relative difference {difference:.2g}")
            if not difference <= recorded.TOLERANCE:
                bad.append(what)
    if not compared:
        raise ValueError("--verify: found nothing to compare in the case")
    if bad:
        raise ValueError(
            f"--verify: {', '.join(bad)} differ, wanted at most "
            f"{recorded.TOLERANCE:g}; do not trust {logdir}"
        )


def differences_to_paper(dialect: str) -> List[str]:
    """Return a line for each decision in which a dialect differs from the paper."""
    paper, row = DIALECTS["paper"], DIALECTS[dialect]
    return [
        f"  {name}: {getattr(row, name)} (paper: {getattr(paper, name)})"
        for name in row._fields
        if name != "described_in" and getattr(row, name) != getattr(paper, name)
    ]


def run(args) -> None:
    """Read, check, write, verify."""
    given_vocabularies(args)
    refuse_used(args.out, "--out")
    cli.start_tensorflow(args.verbose)
    # Only here: TensorFlow, which they import, takes seconds.
    from transformer.originals import convert
    from transformer.runtime import checkpoints

    arrays = convert.read(args.ckpt, rules_in(args.names) if args.names else ())
    if args.source == SASREC:
        import_recommender(args, arrays)
        return
    settings = convert.settings_of(args.source, arrays, subword_sizes(args))
    settings.update(TRAINED_WITH.get(settings["dialect"], {}))
    hp = hparams.HParams(num_heads=args.num_heads, **settings)
    hparams.validate(hp)
    case = case_of(args) if args.verify else {"meta": {}}
    target_space = args.target_space_id
    if target_space is None:
        target_space = case["meta"].get("target_space_id", 0)
    imported = convert.convert(arrays, hp, target_space)
    vocabularies = vocabulary_files(args, hp)
    with new_folder(args.out, "--out") as made:
        hparams.save(hp, made)
        for name, content in vocabularies:
            with open(os.path.join(made, name), "wb") as file:
                file.write(content)
        checkpoints.write(imported.arrays, made, imported.step)
    path = checkpoints.path_of(args.out, imported.step)
    report(path, imported, hp, bool(vocabularies), target_space)
    if args.verify:
        verify(args.out, case, args.source)


def import_recommender(args, arrays) -> None:
    """Write the folder of a recommender; ValueError for flags of translators."""
    from transformer.originals import recommender  # needs TensorFlow

    if given_vocabularies(args)[0] or args.verify:
        raise ValueError(
            "--from sasrec: found a vocabulary or --verify, wanted neither: it is no "
            "translator"
        )
    with new_folder(args.out, "--out") as made:
        settings = recommender.write(arrays, args.num_heads, made)
    say(f"{args.out}: a recommender of {settings.items:,} items")


def report(path, imported, hp, has_vocabulary, target_space):
    """Print what was imported."""
    row = DIALECTS[hp.dialect]
    say(f"{path}: {imported.parameters():,} parameters of {row.described_in}")
    if row.masks_from == "activations":  # so padding is attended to
        say(
            f"sources are padded to {hp.pad_sources_to} pieces, as there"
            if hp.pad_sources_to
            else "sources are not padded: no variable says how long they were "
            "there; set pad_sources_to in hparams.json"
        )
    if row.target_space:
        say(f"target space {target_space} (--target_space_id)")
    say(
        "with the moments of the optimizer: training continues exactly"
        if imported.has_moments
        else "without moments of the optimizer: Adam starts afresh"
    )
    say(f"dialect {hp.dialect}, unlike the paper:", *differences_to_paper(hp.dialect))
    if not has_vocabulary:
        say("no vocabulary: imported for ids only; eval.py and translate.py need one")


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("import_checkpoint.py", __doc__)
    made.add_argument(
        "--from",
        dest="source",
        required=True,
        choices=sorted([*systems(), SASREC]),
        help="the original system",
    )
    made.add_argument(
        "--ckpt",
        required=True,
        metavar="CHECKPOINT",
        help="the checkpoint, without the endings of its files",
    )
    made.add_argument(
        "--num_heads",
        type=int,
        required=True,
        metavar="INT",
        help="attention heads; the checkpoint does not say",
    )
    made.add_argument(
        "--out", required=True, metavar="DIR", help="the log directory that is written"
    )
    for flag, metavar, text in (
        ("--names", "MAP.json", "regular expressions that rename its variables first"),
        ("--spm", "FILE", "its SentencePiece model"),
        ("--vocab", "FILE", "its list of words; of tensor2tensor, of subwords"),
        ("--src_vocab", "FILE", "the source's, where the target has another"),
        ("--tgt_vocab", "FILE", "the target's"),
        ("--verify", "CASE.npz", "recorded inputs and outputs to compare with"),
    ):
        made.add_argument(flag, metavar=metavar, help=text)
    made.add_argument(
        "--target_space_id",
        type=int,
        metavar="N",
        help="tensor2tensor's kind of target [that of --verify, or 0]",
    )
    return made


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
