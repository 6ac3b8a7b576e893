"""Train a translation model: a prepared corpus → a log directory.

    transformer-tf train --preset sample --logdir logs/sample
    transformer-tf train --data data/multi30k --preset multi30k --logdir logs/multi30k
    transformer-tf train --data data/mine --init_from logs/multi30k --logdir logs/mine

Run the same command again to continue from the newest checkpoint. Settings, in order of
increasing priority: the defaults below < --preset < hparams.json in the log directory <
flags.

--init_from starts from the weights of another log directory, and uses its architecture;
the corpus must have been prepared with --vocab_from that directory. The new log
directory records where it started from; once it has a checkpoint, the flag has no
effect.
"""

import argparse
import dataclasses
import os
from typing import Any, Dict

from transformer import hparams
from transformer.commands import cli
from transformer.logdir import manifests
from transformer.runtime.errors import CorpusVocabularyMismatch
from transformer.runtime.files import refuse_used
from transformer.text.vocabulary import has_same_vocabulary, load_vocabularies
from transformer.workers.cluster import read_cluster

# What a log directory may contain before its settings are written: remainders of a
# killed start, and a log of the user's own.
BEGUN = (
    *("lock", "lost+found", "*.log", "*.out", "*.err", "*.txt", "*.tmp", "run.jsonl"),
    *("spm*.model", "words*.tsv", "vocab*.subwords", "events.out.tfevents.*"),
    *(".saving", "*.ckpt-*", "checkpoint", "dev_scores.jsonl", ".unfinished-*"),
)


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    made = cli.make_parser("train", __doc__)
    made.add_argument(
        "--logdir",
        required=True,
        type=cli.path,
        metavar="DIR",
        help="where everything is written; give it again to continue",
    )
    made.add_argument(
        "--preset",
        metavar="NAME",
        help=f"settings to start from: {', '.join(hparams.PRESETS)}",
    )
    made.add_argument(
        "--init_from",
        type=cli.path,
        metavar="DIR",
        help="a log directory; its best weights start a new training run",
    )
    made.add_argument(
        "--accept_changes",
        action="store_true",
        help="continue even though the corpus differs",
    )
    cli.add_settings(made, hparams.FIELDS)
    return made


def settings(args: argparse.Namespace) -> hparams.HParams:
    """Return the settings, with the vocabulary sizes from the data folder.

    Raises:
      ValueError: the settings contradict each other, the data or the log directory.
    """
    given = cli.typed_settings(args, hparams.FIELDS)
    is_set = hparams.has_settings(args.logdir)
    hp = hparams.resolve(given, args.preset, args.logdir, args.init_from)
    refuse_used(args.logdir, "--logdir", hparams.FILE_NAME, BEGUN)
    if args.init_from and not manifests.has_checkpoint(args.logdir):
        if not has_same_vocabulary(args.init_from, hp.data):
            raise CorpusVocabularyMismatch(
                f"{hp.data}: expected the vocabulary of {args.init_from}, got another",
                hp.data,
                args.init_from,
            )
    vocabularies = load_vocabularies(hp.data)
    from_data: Dict[str, Any] = {
        "source_vocab_size": vocabularies.source.size,
        "target_vocab_size": vocabularies.target.size,
        "joint_vocab": vocabularies.joint,
    }
    for name, value in from_data.items():
        chosen = getattr(hp, name)
        is_auto = not chosen and name != "joint_vocab"  # a size of 0
        if (name in given or is_set) and chosen != value and not is_auto:
            raise ValueError(
                f"{name}: expected {chosen}, as in the settings, got {value} in "
                f"{hp.data}; choose another --data, or another --logdir"
            )
    # Later commands may run in another folder.
    return dataclasses.replace(hp, data=os.path.abspath(hp.data), **from_data)


def run(args: argparse.Namespace) -> None:
    """Refuse settings that cannot work, then train."""
    hp = settings(args)
    cluster = read_cluster(os.environ)
    cli.start_tensorflow(args.verbose)
    # Imported here, because importing TensorFlow takes seconds.
    from transformer.logdir import manifests
    from transformer.trainer import train

    if manifests.has_checkpoint(args.logdir) and not hparams.has_settings(args.logdir):
        raise ValueError(
            f"{args.logdir}: expected {hparams.FILE_NAME} beside the checkpoints, got "
            "none; choose another --logdir"
        )
    overruled = overruled_by(hp, args)
    if overruled:
        args.warn(f"--preset {args.preset}: {overruled}")
    train(hp, args.logdir, args.warn, args.accept_changes, cluster, args.init_from)


def overruled_by(hp: hparams.HParams, args: argparse.Namespace) -> str:
    """Return, in words, which preset values the log directory overrules."""
    given = cli.typed_settings(args, hparams.FIELDS)
    others = [
        f"{name} {getattr(hp, name)!r} (preset: {value!r})"
        for name, value in hparams.PRESETS.get(args.preset, {}).items()
        if name not in ("data", *given) and getattr(hp, name) != value
    ]
    if not others:
        return ""
    return (
        f"the saved values of {args.logdir} are kept: {', '.join(others)}; to use "
        "those of the preset, choose another --logdir"
    )
