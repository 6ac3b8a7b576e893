"""One run of the laboratory, in a process of its own: see `lab.py`, which starts it.

    python tools/lab/one.py SPEC.json

SPEC.json describes the run: `Lab.start` writes it. The result, an object, is written to
the file that its field `result` names. The row's patch is applied before anything of
the package is imported.
"""

import dataclasses
import json
import os
import platform
import sys
import time
from typing import Any, Dict, List

import patches
from rows import ROWS

sys.path.insert(0, patches.ROOT)


def translate(spec: Dict[str, Any], row, hp) -> Dict[str, Any]:
    """Score dev with the checkpoints of the base."""
    from transformer import hparams
    from transformer.commands.average_checkpoints import average_kept
    from transformer.evaluation import evaluate
    from transformer.logdir import checkpoints, manifests
    from transformer.text.data_folder import read_parallel
    from transformer.text.vocabulary import copy_vocabularies
    from transformer.translator import Translator

    logdir = spec["base_logdir"]
    if row.average:
        averaged = average_kept(logdir, row.average, 0, print)
        logdir = spec["logdir"]
        os.makedirs(logdir, exist_ok=True)
        copy_vocabularies(spec["base_logdir"], logdir)
        hparams.save(hp, logdir)
        step = averaged.steps[-1]
        checkpoints.save_arrays(averaged.arrays, logdir, step, averaged.description)
    checkpoint = manifests.find_checkpoint(logdir, "newest", print)
    text = read_parallel(spec["data"], "dev")
    with Translator.for_settings(hp, logdir) as translator:
        translator.restore(checkpoint)
        scores, _ = evaluate(
            translator.translate,
            text.sources,
            text.references,
            tokenizer=text.tokenizer,
        )
    return {"bleu": scores.bleu, "checkpoint": checkpoint}


def train(spec: Dict[str, Any], hp) -> Dict[str, Any]:
    """Train; return dev BLEU by step, and the losses."""
    import tensorflow.compat.v1 as tf

    from transformer.logdir import manifests
    from transformer.logdir.history import read_dev_scores
    from transformer.trainer import train

    logdir = spec["logdir"]
    failure = ""
    try:
        train(hp, logdir, print)
    except FloatingPointError as error:  # the row does not learn: a result, too
        failure = str(error)
    scores = read_dev_scores(logdir)
    losses: List[float] = []
    for name in sorted(os.listdir(logdir)):
        if "tfevents" in name:
            for event in tf.train.summary_iterator(os.path.join(logdir, name)):
                losses += [
                    x.simple_value for x in event.summary.value if x.tag == "loss"
                ]
    result = {
        "bleu": 0.0 if failure else scores[-1]["bleu"],
        "dev_loss": None if failure else scores[-1]["loss"],
        "train_loss": losses[-1] if losses else None,
        "by_step": [[score["step"], score["bleu"], score["loss"]] for score in scores],
        "failure": failure,
    }
    if manifests.has_checkpoint(logdir):
        result["checkpoint"] = manifests.find_checkpoint(logdir, "newest", print)
    return result


def ask_doctor(spec: Dict[str, Any], hp, checkpoint: str) -> List[str]:
    """Return the names of what the command doctor finds."""
    from transformer.commands.doctor import diagnose
    from transformer.text.data_folder import read_parallel

    diagnosis = diagnose(hp, checkpoint, read_parallel(spec["data"], "dev"))
    return list(diagnosis.findings)


def describe_machine() -> str:
    """Return the kind of machine: its GPU, or its processor and the cores used."""
    import tensorflow.compat.v1 as tf

    for device in tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_device_details(device)["device_name"]
    name = platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [
                line.split(":")[1] for line in file if line.startswith("model name")
            ]
        name = names[0].strip() if names else name
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def main(path: str) -> None:
    """Run what a file describes, and write its result."""
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    row = {row.name: row for row in ROWS}[spec["row"]]
    os.sched_setaffinity(0, spec["cores"])
    if row.patch:
        patches.install(row.patch)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    from transformer import hparams
    from transformer.commands.train import add_vocabulary_sizes
    from transformer.logdir.history import current_versions
    from transformer.logdir.manifests import has_checkpoint
    from transformer.runtime.files import replace_file

    began, is_new = time.monotonic(), not has_checkpoint(spec["logdir"])
    hp = hparams.HParams(**spec["settings"])
    hp = add_vocabulary_sizes(dataclasses.replace(hp, data=spec["data"]), {})
    result = translate(spec, row, hp) if row.uses_base else train(spec, hp)
    seconds = round(time.monotonic() - began, 1)
    checkpoint = result.pop("checkpoint", None)
    result["doctor"] = ask_doctor(spec, hp, checkpoint) if checkpoint else []
    result.update(
        versions=current_versions(),
        machine=describe_machine(),
        seconds=seconds if is_new else None,  # None: it was stopped and continued
    )
    with replace_file(spec["result"]) as file:
        json.dump(result, file)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except BaseException as error:
        if not hasattr(error, "status"):  # only the package's Stopped has one
            raise
        sys.exit(error.status)
