"""The commands whose writes fail, and what a folder may contain afterwards."""

import fnmatch
import glob
import hashlib
import json
import os
import random
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

# What no command may leave in a folder once it has succeeded.
REMAINDERS = (".unfinished-*", ".saving", "*.tmp", "*tempstate*")
Content = Dict[str, Any]


class Scenario(NamedTuple):
    """A command, the folder that it writes, and what that folder may contain.

    All paths are relative to the folder in which the command runs.

    Attributes:
      command: its name in the program, or a key of FUNCTIONS.
      argv: its arguments.
      target: the folder that it writes.
      before: (command, arguments) of the commands to run first, without faults.
      read: function of the target; returns its content, without what differs from run
        to run.
      find_damage: function of a target that is neither the old nor the new one;
        describes its damage, "" for none. None: there must be no such target.
      needs: the name of a required package, or "".
    """

    command: str
    argv: str
    target: str
    before: Tuple = ()
    read: Callable[[str], Content] = None
    find_damage: Callable[[str], str] = None
    needs: str = ""


def write_texts(world: str) -> None:
    """Write the text of two small corpora: symbols, and the same symbols reversed."""
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


def is_remainder(path: str) -> bool:
    """Return whether a path is, or lies in, a remainder."""
    return any(
        fnmatch.fnmatchcase(name, pattern)
        for name in path.split(os.sep)
        for pattern in REMAINDERS
    )


def read_tree(folder: str) -> Content:
    """Read files and folders below a folder: path → content, None for a folder."""
    content = {}
    for parent, folders, names in os.walk(folder):
        for name in folders:
            content[os.path.relpath(os.path.join(parent, name), folder)] = None
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                content[os.path.relpath(path, folder)] = file.read()
    return content


def read_files(folder: str) -> Content:
    """Read the content of a folder, without remainders."""
    return {
        path: content
        for path, content in read_tree(folder).items()
        if not is_remainder(path)
    }


def read_run(logdir: str) -> Content:
    """Read the content of a log directory; for events, only reproducible values."""
    import tensorflow.compat.v1 as tf  # only processes with the shim need it

    content = {}
    scalars = {}
    for name, data in read_files(logdir).items():
        if name == "lock":  # its content is the name of a process
            continue
        if not name.startswith("events."):
            content[name] = data
            continue
        try:
            for event in tf.train.summary_iterator(os.path.join(logdir, name)):
                for value in event.summary.value:
                    if value.tag not in ("minutes", "tokens_per_second"):
                        key = f"{value.tag} of step {event.step}"
                        scalars.setdefault(key, set()).add(value.simple_value)
        except tf.errors.DataLossError:
            continue  # the process was killed at this record
    for key, values in scalars.items():
        content[key] = sorted(values)
    return content


def find_changed_file(folder: str, checksums: Dict[str, str]) -> str:
    """Describe a file that does not match its SHA-256; "" if all match."""
    for name, expected in checksums.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            return f"{name} is missing"
        with open(path, "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != expected:
                return f"{name} is not what was written"
    return ""


def find_data_folder_damage(folder: str) -> str:
    """Describe the damage of a data folder that claims to be whole; "" for none."""
    path = os.path.join(folder, "corpus.json")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return find_changed_file(folder, json.load(file)["sha256"])


def find_run_damage(logdir: str) -> str:
    """Describe the damage of a log directory whose training ended; "" for none."""
    try:
        for path in glob.glob(os.path.join(logdir, "*.json*")):
            if not is_remainder(os.path.basename(path)):
                with open(path, encoding="utf-8") as file:
                    for text in file if path.endswith("l") else [file.read()]:
                        json.loads(text)
    except ValueError as error:
        return f"{path}: {error}"
    for manifest in glob.glob(os.path.join(logdir, "*.ckpt-*.sha256")):
        if not os.path.exists(manifest[: -len(".sha256")] + ".index"):
            continue  # not a checkpoint: its index comes last, and is removed first
        with open(manifest, encoding="utf-8") as file:
            lines = [line.split() for line in file if not line.startswith("#")]
            checksums = {name: checksum for checksum, name in lines}
        damage = find_changed_file(logdir, checksums)
        if damage:
            return damage
    path = os.path.join(logdir, "checkpoint")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            names = [json.loads(line.split(": ")[1]) for line in file]
        for name in names:
            if not os.path.exists(os.path.join(logdir, name + ".index")):
                return f"checkpoint names {name}, which does not exist"
    return ""


def find_export_damage(folder: str) -> str:
    """Describe the damage of an export that is neither the old nor the new one."""
    return "it is incomplete" if os.path.lexists(folder) else ""


def read_shards(folder: str) -> Content:
    """Read the translations of a folder of shards; its plan names times and paths."""
    return {
        path: content
        for path, content in read_tree(folder).items()
        if path != "plan.json"
    }


def find_shard_damage(folder: str) -> str:
    """Describe a shard that has not all its lines; "" if each is whole or missing."""
    path = os.path.join(folder, "plan.json")
    if not os.path.exists(path):
        return "it has no plan" if glob.glob(os.path.join(folder, "*.txt")) else ""
    with open(path, encoding="utf-8") as file:
        shards = json.load(file)["shards"]
    for shard in shards:
        path = os.path.join(folder, f"shard-{shard['number']:06d}.txt")
        if os.path.exists(path):
            with open(path, "rb") as file:
                if file.read().count(b"\n") != shard["num_lines"]:
                    return f"{path} is incomplete"
    return ""


def write_original(argv: List[str]) -> None:
    """Write the checkpoint of a log directory with the names of Kyubyong/transformer.

    Args:
      argv: the log directory and the folder to write.
    """
    import tensorflow.compat.v1 as tf

    from transformer.compat.names import original_name

    logdir, out = argv
    reader = tf.train.load_checkpoint(os.path.join(logdir, "model.ckpt-2"))
    shapes = reader.get_variable_to_shape_map()
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {}
        for name, shape in shapes.items():
            if name + "/Adam" in shapes:
                name_there = original_name(name, "kyubyong", shape)
                variables[name_there] = tf.Variable(reader.get_tensor(name))
        variables["global_step"] = tf.Variable(reader.get_tensor("global_step"))
        session.run(tf.global_variables_initializer())
        os.makedirs(out)
        saver = tf.train.Saver(variables)
        saver.save(session, os.path.join(out, "model.ckpt"), 2, write_meta_graph=False)


TEXTS = "--train text/train.de text/train.en --dev text/dev.de text/dev.en"
TRAIN = (
    "--data data --logdir logs --num_blocks 1 --d_model 8 --d_ff 8 --num_heads 2 "
    "--search greedy --max_extra_length 2 --log_every 1 --eval_every 2 --save_every 2 "
    "--warmup_steps 4 --deterministic "
)
FOUR_STEPS = TRAIN + "--max_steps 4 --keep_checkpoints "
EXPORT = "--format ctranslate2 --logdir logs --out exported"
PREPARED = (("prepare", "--out data --vocab_size 25"),)
TRAINED = (*PREPARED, ("train", TRAIN + "--max_steps 2"))
AVERAGED = (*PREPARED, ("train", FOUR_STEPS + "2"))
ORIGINAL = (
    *PREPARED,
    ("train", TRAIN + "--max_steps 2 --dialect kyubyong"),
    ("write_original", "logs original"),
)

# Functions that are not commands: name → function of the arguments.
FUNCTIONS = {"write_original": write_original}

CORPUS = {"read": read_files, "find_damage": find_data_folder_damage}
RUN = {"read": read_run, "find_damage": find_run_damage}
WHOLE = {"read": read_files}
EXPORTED = {
    "read": read_files,
    "find_damage": find_export_damage,
    "needs": "ctranslate2",
}

# The extension point for commands: name → Scenario.
SCENARIOS = {
    "prepare": Scenario(
        "prepare", f"--out new --vocab_size 25 {TEXTS}", "new", **CORPUS
    ),
    "prepare over an older corpus": Scenario(
        "prepare", "--out data --vocab_size 24 --separate", "data", PREPARED, **CORPUS
    ),
    "train": Scenario("train", FOUR_STEPS + "1", "logs", PREPARED, **RUN),
    "train, continued": Scenario("train", FOUR_STEPS + "1", "logs", TRAINED, **RUN),
    "import_checkpoint": Scenario(
        "import",
        "--from kyubyong --ckpt original/model.ckpt-2 --num_heads 2 "
        "--spm data/spm.model --out imported",
        "imported",
        ORIGINAL,
        **WHOLE,
    ),
    "average_checkpoints": Scenario(
        "average", "--logdir logs --last 2 --out mean", "mean", AVERAGED, **WHOLE
    ),
    "translate in shards": Scenario(
        "translate",
        "--logdir logs --input text/train.de --shards shards --deterministic",
        "shards",
        TRAINED,
        read=read_shards,
        find_damage=find_shard_damage,
    ),
    "export": Scenario("export", EXPORT, "exported", TRAINED, **EXPORTED),
    "export over an older one": Scenario(
        "export",
        EXPORT + " --quantization int8",
        "exported",
        (*TRAINED, ("export", EXPORT)),
        **EXPORTED,
    ),
}
