"""Train a translation model: a data folder → a log directory.

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
from typing import Any, Collection, Dict, Optional

from transformer import hparams
from transformer.commands import cli
from transformer.logdir import manifests
from transformer.logdir.names import BEFORE_SETTINGS
from transformer.runtime.errors import (
    CorpusVocabularyMismatch,
    LogDirectoryError,
    SettingsError,
)
from transformer.runtime.files import refuse_used
from transformer.text.vocabulary import has_same_vocabulary, load_vocabularies
from transformer.workers.cluster import read_cluster


def parser() -> cli.Parser:
    """Make the parser of the command line."""
    parser = cli.make_parser("train", __doc__)
    parser.add_argument(
        "--logdir",
        required=True,
        type=cli.path,
        metavar="DIR",
        help="where everything is written; give it again to continue",
    )
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help=f"settings to start from: {', '.join(hparams.PRESETS)}",
    )
    parser.add_argument(
        "--init_from",
        type=cli.path,
        metavar="DIR",
        help="a log directory; its best weights start a new training run",
    )
    parser.add_argument(
        "--accept_changes",
        action="store_true",
        help="continue even though the corpus differs",
    )
    cli.add_settings(parser, hparams.FIELDS)
    return parser


def run(args: argparse.Namespace) -> None:
    """Refuse settings that cannot work, then train."""
    flags = cli.read_settings(args, hparams.FIELDS)
    cluster = read_cluster(os.environ)
    if cluster:  # workers may run in other folders: messages name whole paths
        args.logdir = os.path.abspath(args.logdir)
        args.init_from = args.init_from and os.path.abspath(args.init_from)
    hp = hparams.resolve(flags, args.preset, args.logdir, args.init_from)
    if cluster:
        hp = dataclasses.replace(hp, data=os.path.abspath(hp.data))
    refuse_used(args.logdir, "--logdir", hparams.FILE_NAME, BEFORE_SETTINGS)
    if args.init_from and not manifests.has_checkpoint(args.logdir):
        refuse_other_vocabulary(hp.data, args.init_from)
    is_saved = hparams.has_settings(args.logdir)
    hp = add_vocabulary_sizes(hp, hparams.FIELDS if is_saved else flags)
    cli.start_tensorflow(args.verbose)
    from transformer.trainer import train  # here, because TensorFlow takes seconds

    if manifests.has_checkpoint(args.logdir) and not is_saved:
        raise LogDirectoryError(
            f"{args.logdir}: {hparams.FILE_NAME} is missing beside the checkpoints; "
            "choose another --logdir"
        )
    overruled = describe_overruled(hp, args.preset, flags)
    if overruled:
        args.warn(
            f"--preset {args.preset}: the saved values of {args.logdir} are kept: "
            f"{overruled}; to use those of the preset, choose another --logdir"
        )
    train(hp, args.logdir, args.warn, args.accept_changes, cluster, args.init_from)


def refuse_other_vocabulary(data: str, logdir: str) -> None:
    """Raise CorpusVocabularyMismatch if a data folder has not a model's vocabulary."""
    if not has_same_vocabulary(logdir, data):
        raise CorpusVocabularyMismatch(
            f"{data}: expected the vocabulary of {logdir}, got another", data, logdir
        )


def add_vocabulary_sizes(
    hp: hparams.HParams, fixed: Collection[str]
) -> hparams.HParams:
    """Add the vocabulary sizes of the data folder to the settings.

    Args:
      hp: the settings.
      fixed: the names of the settings that were saved or given, and must not change.

    Raises:
      SettingsError: the data folder contradicts a fixed setting.
    """
    vocabularies = load_vocabularies(hp.data)
    from_data: Dict[str, Any] = {
        "source_vocab_size": vocabularies.source.size,
        "target_vocab_size": vocabularies.target.size,
        "joint_vocab": vocabularies.joint,
    }
    for name, value in from_data.items():
        setting = getattr(hp, name)
        is_automatic = not setting and name != "joint_vocab"  # a size of 0
        if name in fixed and setting != value and not is_automatic:
            raise SettingsError(
                f"{name}: expected {setting}, as in the settings, got {value} in "
                f"{hp.data}; choose another --data, or another --logdir"
            )
    # Later commands may run in another folder.
    return dataclasses.replace(hp, data=os.path.abspath(hp.data), **from_data)


def describe_overruled(
    hp: hparams.HParams, preset: Optional[str], flags: Collection[str]
) -> str:
    """Describe the values of a preset that saved settings overrule; "" for none.

    Args:
      hp: the settings of the run.
      preset: a name in `PRESETS`, or None.
      flags: the names of the settings given on the command line.
    """
    return ", ".join(
        f"{name} {getattr(hp, name)!r} (preset: {value!r})"
        for name, value in hparams.PRESETS.get(preset or "", {}).items()
        if name not in ("data", *flags) and getattr(hp, name) != value
    )
