"""Train a translation model: a prepared corpus → a log directory.

    python train.py --preset sample --logdir logs/sample
    python train.py --data data/multi30k --preset multi30k --logdir logs/multi30k

The same command again continues from the newest checkpoint. Settings: the defaults
below < --preset < hparams.json of the log directory < flags.
"""

import dataclasses
import os

import hparams
from transformer.runtime import cli
from transformer.runtime.cluster import cluster_of
from transformer.runtime.folders import refuse_used
from transformer.text.vocabulary_files import load_vocabularies

PROG = "train.py"

# What a log directory may have before its settings are written: what a killed start
# left, and a log of the user's own.
BEGUN = ("lock", "lost+found", "*.log", "*.out", "*.err", "*.txt", "*.tmp", "run.jsonl")
BEGUN += ("spm*.model", "words*.tsv", "vocab*.subwords", "events.out.tfevents.*")
BEGUN += (".saving", "*.ckpt-*", "checkpoint", "dev_scores.jsonl", ".unfinished-*")


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    made.add_argument(
        "--logdir",
        required=True,
        metavar="DIR",
        help="where everything is written; the same again continues",
    )
    made.add_argument(
        "--preset",
        metavar="NAME",
        help=f"settings to start from: {', '.join(hparams.PRESETS)}",
    )
    made.add_argument(
        "--accept_changes",
        action="store_true",
        help="continue although the corpus is another one",
    )
    cli.add_settings(made, hparams.FIELDS)
    return made


def settings(args) -> hparams.HParams:
    """Return the settings; those of the vocabulary come from the data folder.

    Raises:
      ValueError: they contradict each other, the data or the log directory.
    """
    given = cli.given(args, hparams.FIELDS)
    hp = hparams.resolve(given, args.preset, args.logdir)
    refuse_used(args.logdir, "--logdir", hparams.FILE_NAME, BEGUN)
    vocabularies = load_vocabularies(hp.data)
    facts = {
        "source_vocab_size": vocabularies.source.size,
        "target_vocab_size": vocabularies.target.size,
        "joint_vocab": vocabularies.joint,
    }
    for name, fact in facts.items():
        found = getattr(hp, name)
        was_said = name in given or hparams.has_settings(args.logdir)
        if was_said and found != fact and (found or name == "joint_vocab"):
            raise ValueError(
                f"{name}: found {found}, wanted {fact} as in {hp.data}; "
                "choose another --data, or another --logdir"
            )
    # Later commands may be run in another folder.
    return dataclasses.replace(hp, data=os.path.abspath(hp.data), **facts)


def run(args) -> None:
    """Refuse what cannot work, then train."""
    hp, cluster = settings(args), cluster_of(os.environ)
    cli.start_tensorflow(args.verbose)
    # Only here: TensorFlow, which they import, takes seconds.
    from transformer.runtime import checkpoints
    from transformer.trainer import train

    if checkpoints.exist(args.logdir) and not hparams.has_settings(args.logdir):
        raise ValueError(
            f"{args.logdir}: found checkpoints, but no "
            f"{hparams.FILE_NAME}; choose another --logdir"
        )
    warn = cli.warner(PROG)
    overruled = overruled_by(hp, args)
    if overruled:
        warn(f"--preset {args.preset}: {overruled}")
    train(hp, args.logdir, hparams.save, warn, args.accept_changes, cluster)


def overruled_by(hp, args) -> str:
    """Return, in words, which values of the preset the log directory overrules."""
    given = cli.given(args, hparams.FIELDS)
    others = [
        f"{name} {getattr(hp, name)} (preset: {value})"
        for name, value in hparams.PRESETS.get(args.preset, {}).items()
        if name not in ("data", *given) and getattr(hp, name) != value
    ]
    if not others:
        return ""
    return (
        f"found other values in {args.logdir}, which stay: {', '.join(others)}; for "
        "those of the preset choose another --logdir"
    )


def main(argv=None):
    advice = "the same command continues from the last checkpoint"
    cli.main(parser(), run, argv, advice)


if __name__ == "__main__":
    main()
