"""The commands whose every call is failed, and what may be found afterwards."""

import fnmatch
import glob
import json
import os
import random
from typing import Any, Callable, Dict, List, NamedTuple

TRAIN = (
    "--log_every 1 --eval_every 2 --save_every 2 --keep_checkpoints 1 "
    "--max_steps {steps} --warmup_steps 4 --deterministic"
)
# What no command may leave in a folder.
LEFT = (".unfinished-*", ".prepare-*", ".saving", "*.tmp", "*tempstate*", "*.part")


class Scenario(NamedTuple):
    """A command in a folder, "the world", and what it does there.

    Attributes:
      command: the name of its module.
      argv: its arguments, relative to the world.
      before: (command, its arguments) of the commands that make the world.
      target: the folder that it writes.
      read: function of the target; returns its content without what is never equal.
      may_be_between: when the target may be neither the old one nor the new one, but
        something that is known to be unfinished: "never", "killed", "always".
      damage: function of such a target; returns what is wrong with it, "" for nothing.
      needs: the name of a package, "" for none.
    """

    command: str
    argv: str
    before: List[Any]
    target: str
    read: Callable[[str], Dict[str, Any]]
    may_be_between: str = "never"
    damage: Callable[[str], str] = str
    needs: str = ""


def write_texts(world: str) -> None:
    """Write the text of two small corpora: symbols, and the same backwards."""
    draw = random.Random(1)
    for corpus in ("text", "data"):
        os.makedirs(os.path.join(world, corpus))
        for split, size in (("train", 60), ("dev", 5), ("test", 5)):
            rows = [
                [draw.choice("0123456789") for _ in range(draw.randint(4, 9))]
                for _ in range(size)
            ]
            for language, step in (("de", 1), ("en", -1)):
                path = os.path.join(world, corpus, f"{split}.{language}")
                with open(path, "w", encoding="utf-8") as file:
                    file.writelines(" ".join(row[::step]) + "\n" for row in rows)


def is_left(name: str) -> bool:
    """Return whether a file or folder of this name is a remainder."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in LEFT)


def remainders(world: str) -> List[str]:
    """Return the files and folders that no command may leave."""
    return sorted(
        os.path.relpath(os.path.join(folder, name), world)
        for folder, folders, names in os.walk(world)
        for name in folders + names
        if is_left(name)
    )


def left_in(world: str) -> Dict[str, Any]:
    """Return the content of every remainder: path → bytes, None for a folder."""
    found = {}
    for path in remainders(world):
        whole = os.path.join(world, path)
        found[path] = None
        for name, content in bytes_of(whole).items():
            found[os.path.join(path, name)] = content
        if os.path.isfile(whole):
            with open(whole, "rb") as file:
                found[path] = file.read()
    return found


def bytes_of(folder: str) -> Dict[str, Any]:
    """Return every file and folder below a folder, but remainders: path → content."""
    found = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_left(name)]
        for name in folders:
            found[os.path.relpath(os.path.join(parent, name), folder)] = None
        for name in names:
            path = os.path.join(parent, name)
            if not is_left(name):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


def run_of(logdir: str) -> Dict[str, Any]:
    """Return the content of a log directory; of events, the values that are repeatable.

    The lock names a process; it is only asked whether it is empty.
    """
    from transformer.runtime.events import read_events  # needs TensorFlow

    found, scalars = {}, {}
    for name, content in bytes_of(logdir).items():
        if name.startswith("events."):
            for step, values in read_events(os.path.join(logdir, name)):
                for tag in set(values) - {"minutes", "tokens_per_second"}:
                    scalars.setdefault(f"{tag} of step {step}", set()).add(values[tag])
        else:
            found[name] = content
    found.pop("lock", None)
    return {**found, **{name: sorted(values) for name, values in scalars.items()}}


def unusable_corpus(folder: str) -> str:
    """Return "" for a corpus that is whole or refused, else what is wrong."""
    from transformer.text.summary import SUMMARY, verify

    if os.path.exists(os.path.join(folder, SUMMARY)):
        try:
            verify(folder, but=" ")
        except ValueError as error:
            return str(error)
    return ""


def unusable_run(logdir: str) -> str:
    """Return what is wrong in a log directory whose training run was ended."""
    import hparams
    from transformer.runtime import checkpoints, history, reporting

    try:
        reporting.read_dev_scores(logdir)
        history.read_run(logdir)
        if hparams.has_settings(logdir):
            hparams.load(logdir)
    except ValueError as error:
        return str(error)
    for kind in (checkpoints.NEWEST, checkpoints.BEST):
        for step in checkpoints.steps(logdir, kind):
            fault = checkpoints.fault_of(checkpoints.path_of(logdir, step, kind))
            if fault:
                return fault
    return _state_of(logdir)


def _state_of(logdir: str) -> str:
    """Return what is wrong with the file that names the checkpoints."""
    path = os.path.join(logdir, "checkpoint")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        names = [json.loads(line.split(": ")[1]) for line in file]
    gone = [name for name in names if not glob.glob(os.path.join(logdir, name + ".i*"))]
    return f"checkpoint names {gone[0]}, which is not there" if gone else ""


PREPARED = [("prepare", "--out data --vocab_size 25")]
TEXTS = "--train text/train.de text/train.en --dev text/dev.de text/dev.en"
TRAINED = [*PREPARED, ("train", f"--data data --logdir logs {TRAIN.format(steps=2)}")]
TWO = TRAIN.format(steps=4).replace("--keep_checkpoints 1", "--keep_checkpoints 2")
MODEL = [*PREPARED, ("small", "logdir data logs")]
EXPORT = "--format ctranslate2 --logdir logs --out exported"

# The extension point for commands: name → Scenario.
SCENARIOS = {
    "prepare": Scenario(
        "prepare",
        f"--out new --vocab_size 25 {TEXTS}",
        [],
        "new",
        bytes_of,
        "killed",
        unusable_corpus,
    ),
    "prepare, over an older corpus": Scenario(
        "prepare",
        "--out data --vocab_size 24 --separate",
        PREPARED,
        "data",
        bytes_of,
        "killed",
        unusable_corpus,
    ),
    "prepare, of two corpora with weights": Scenario(
        "prepare",
        f"--out new --vocab_size 25 {TEXTS} --drop_duplicates "
        "--train data/train.de data/train.en 1.5",
        [],
        "new",
        bytes_of,
        "killed",
        unusable_corpus,
    ),
    "train": Scenario(
        "train",
        f"--data data --logdir logs {TRAIN.format(steps=4)}",
        PREPARED,
        "logs",
        run_of,
        "always",
        unusable_run,
    ),
    "train, continued": Scenario(
        "train",
        f"--data data --logdir logs {TRAIN.format(steps=4)}",
        TRAINED,
        "logs",
        run_of,
        "always",
        unusable_run,
    ),
    "import_checkpoint": Scenario(
        "import_checkpoint",
        "--from kyubyong --ckpt original/model.ckpt-3 --num_heads 2 "
        "--spm data/spm.model --out imported",
        [*PREPARED, ("small", "original data original")],
        "imported",
        bytes_of,
    ),
    "average_checkpoints": Scenario(
        "average_checkpoints",
        "--logdir logs --last 2 --out mean",
        [*PREPARED, ("train", f"--data data --logdir logs {TWO}")],
        "mean",
        bytes_of,
    ),
    "export": Scenario(
        "export", EXPORT, MODEL, "exported", bytes_of, needs="ctranslate2"
    ),
    "export, over an older one": Scenario(
        "export",
        EXPORT + " --quantization int8",
        [*MODEL, ("export", EXPORT)],
        "exported",
        bytes_of,
        needs="ctranslate2",
    ),
}
