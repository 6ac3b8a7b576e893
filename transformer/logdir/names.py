"""The names of everything that a log directory holds.

| name | content | written by |
|---|---|---|
| `hparams.json` | the settings | `hparams.save` |
| `spm*.model`, `words*.tsv`, `vocab*.subwords` | a copy of the vocabulary | `trainer` |
| `lock` | who is training here | `history.Lock` |
| `run.jsonl` | the segments of the training run | `history.RunHistory` |
| `dev_scores.jsonl` | the evaluations on dev | `history.DevScores` |
| `events.out.tfevents.*` | scalars for TensorBoard | `history.Events` |
| `model.ckpt-STEP.*` | the newest checkpoints | `checkpoints.save` |
| `best.ckpt-STEP.*` | a copy of the checkpoint with the best dev BLEU | `checkpoints` |
| `checkpoint` | the list of checkpoints, for TensorFlow's tools | `checkpoints` |
| `.saving/` | a checkpoint that is being written | `checkpoints` |
| `CHECKPOINT.TEXT.translations` | translations of a text | `commands/evaluate.py` |
| `alignment.json` | the head that aligns words best | `alignment.py` |
| `ctranslate2-QUANTIZATION-HASH/` | an exported model | `exports/ctranslate2.py` |
| `.unfinished-*/` | a folder that is being written | `runtime/files.py` |

A checkpoint consists of `.index`, `.data-*` and `.sha256`, its manifest. All names of
log directories are made or listed here; this file needs no TensorFlow.
"""

import os
import re
from typing import Pattern, Sequence

from transformer.runtime.files import NAME_START, short_hash

SETTINGS = "hparams.json"
LOCK = "lock"
RUN = "run.jsonl"
DEV_SCORES = "dev_scores.jsonl"
EVENTS = "events.out.tfevents."  # begins the name
ALIGNMENT = "alignment.json"

# Checkpoints: a kind, a step and an ending.
REGULAR = "model.ckpt"
BEST = "best.ckpt"
INDEX = ".index"
DATA = ".data-"  # begins the ending
MANIFEST = ".sha256"
LATEST = "checkpoint"  # the file that tf.train.latest_checkpoint reads
SAVING = ".saving"  # the folder in which a checkpoint is written

TRANSLATIONS = ".translations"
EXPORT_HASH_LENGTH = 16  # hexadecimal digits

# Patterns of what a log directory may contain before its settings are written: the
# remainders of a killed start, and a log of the user's own.
BEFORE_SETTINGS = (
    *(LOCK, "lost+found", "*.log", "*.out", "*.err", "*.txt", "*.tmp", RUN),
    *("spm*.model", "words*.tsv", "vocab*.subwords", EVENTS + "*"),
    *(SAVING, "*.ckpt-*", LATEST, DEV_SCORES, NAME_START + "*"),
)

# Patterns of what no command may overwrite with a result of its own.
ESSENTIAL = (
    *(SETTINGS, RUN, DEV_SCORES, "*.ckpt-*", LATEST),
    *("spm*.model", "words*.tsv", "vocab*.subwords"),
)


def checkpoint_path(logdir: str, step: int, kind: str = REGULAR) -> str:
    """Return the path of a checkpoint, without file extensions.

    Args:
      logdir: the log directory.
      step: the number of updates.
      kind: REGULAR or BEST.
    """
    return os.path.join(logdir, f"{kind}-{step}")


def checkpoint_step(checkpoint: str) -> int:
    """Return the step in the name of a checkpoint."""
    return int(checkpoint.rsplit("-", 1)[1])


def translations_path(
    checkpoint: str, name: str, other_checkpoints: Sequence[str] = ()
) -> str:
    """Return the path of the translations of a text.

    Args:
      checkpoint: the checkpoint that translates.
      name: the name of the text.
      other_checkpoints: those of the other models of an ensemble.
    """
    if other_checkpoints:
        paths = "\n".join(os.path.abspath(path) for path in other_checkpoints)
        name += f".with-{short_hash(paths)}"
    return f"{checkpoint}.{name}{TRANSLATIONS}"


def export_folder(
    checkpoint: str, engine: str, quantization: str, checksum: str
) -> str:
    """Return the path of the exported model of a checkpoint.

    Args:
      checkpoint: its path, without file extensions.
      engine: the software that reads the export.
      quantization: the type of its weights.
      checksum: the SHA-256 of the manifest, which covers the weights.
    """
    name = f"{engine}-{quantization}-{checksum[:EXPORT_HASH_LENGTH]}"
    return os.path.join(os.path.dirname(checkpoint), name)


def export_pattern(engine: str, quantizations: Sequence[str]) -> Pattern[str]:
    """Return the pattern of the names of exports for an engine."""
    kinds = "|".join(quantizations)
    return re.compile(f"{engine}-({kinds})-[0-9a-f]{{{EXPORT_HASH_LENGTH}}}")
