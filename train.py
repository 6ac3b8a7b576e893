"""Train a translation model: a prepared corpus → a log directory.

    python train.py --preset sample --logdir logs/sample
    python train.py --data data/multi30k --preset multi30k --logdir logs/multi30k

The same command again continues from the newest checkpoint. Settings: the defaults
below < --preset < hparams.json of the log directory < flags.
"""

import dataclasses
import os

import hparams
from transformer.runtime import cli, files
from transformer.text.vocabulary_files import load_vocabularies

PROG = "train.py"


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
    files.refuse_unwritable(args.logdir, "--logdir")
    vocabularies = load_vocabularies(hp.data)
    facts = {
        "source_vocab_size": vocabularies.source.size,
        "target_vocab_size": vocabularies.target.size,
        "joint_vocab": vocabularies.joint,
    }
    for name, fact in facts.items():
        found = getattr(hp, name)
        was_said = name in given or has_settings(args.logdir)
        if was_said and found != fact and (found or name == "joint_vocab"):
            raise ValueError(
                f"{name}: found {found}, wanted {fact} as in {hp.data}; "
                "choose another --data, or another --logdir"
            )
    return dataclasses.replace(hp, **facts)


def has_settings(logdir: str) -> bool:
    """Return whether a log directory has saved settings."""
    return os.path.exists(os.path.join(logdir, hparams.FILE_NAME))


def run(args) -> None:
    """Refuse what cannot work, then train."""
    hp = settings(args)
    cli.start_tensorflow(args.verbose)
    # Only here: TensorFlow, which they import, takes seconds.
    from transformer.runtime import checkpoints
    from transformer.trainer import train

    if checkpoints.exist(args.logdir) and not has_settings(args.logdir):
        raise ValueError(
            f"{args.logdir}: found checkpoints, but no "
            f"{hparams.FILE_NAME}; choose another --logdir"
        )
    warn = cli.warner(PROG)
    overruled = overruled_by(hp, args)
    if overruled:
        warn(f"--preset {args.preset}: {overruled}")
    train(hp, args.logdir, hparams.save, warn, args.accept_changes)


def overruled_by(hp, args) -> str:
    """Return, in words, which values of the preset the log directory overrules."""
    given = cli.given(args, hparams.FIELDS)
    others = [
        f"{name} {getattr(hp, name)} (preset: {value})"
        for name, value in hparams.PRESETS.get(args.preset, {}).items()
        if name not in given and getattr(hp, name) != value
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
