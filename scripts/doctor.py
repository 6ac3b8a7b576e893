"""Explain a BLEU near zero: what is wrong with the translations, or with the model.

    python scripts/doctor.py --logdir logs/mine
    python scripts/doctor.py --logdir logs/mine --files test.de test.en

It reads the translations that eval.py wrote, or makes them. Exit status 0: nothing was
found; 1: something was found; 2: an error.
"""

import filecmp
import os
from typing import Callable, Dict, Optional, Tuple

import hparams
from transformer.evaluation import load_text, read_parallel, score, translations_path
from transformer.runtime import cli
from transformer.runtime.reporting import read_dev_scores
from transformer.runtime.terminal import say
from transformer.symptoms import Texts, examine
from transformer.text.lines import read_lines
from transformer.text.vocabulary_files import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    load_vocabularies,
)

PROG = "doctor.py"
LOW = 20  # the BLEU below which more training is advised
TOO_LARGE = 1e15  # products of several such numbers are infinite

# Checks of the log directory: (settings, log directory, checkpoint) → what was found
# and what to do about it, or None.


def other_vocabulary(hp, logdir: str, checkpoint: str) -> Optional[str]:
    """Find a vocabulary that the model was not trained with."""
    from transformer.runtime import tensors  # needs TensorFlow

    vocabularies = load_vocabularies(logdir)
    shapes = tensors.shapes(checkpoint)
    tables = {
        side: shapes.get(f"{stack}embedding/lookup_table")
        for side, stack in (
            ("source", "encoder/"),
            ("target", "decoder/"),
            ("joint", ""),
        )
    }
    for side in ("source", "target"):
        size = getattr(vocabularies, side).size
        table = tables[side] or tables["joint"]
        if table and table[0] != size:
            return (
                f"the vocabulary of the log directory has {size} {side} pieces, "
                f"the model {table[0]}: put back the one it was trained with, from "
                "its data folder"
            )
    for name in (JOINT_MODEL, *SEPARATE_MODELS):
        here, there = (os.path.join(folder, name) for folder in (logdir, hp.data))
        if (
            os.path.isfile(here)
            and os.path.isfile(there)
            and not filecmp.cmp(here, there, shallow=False)
        ):
            return (
                f"{here} is not {there}: one of them was rewritten after "
                "training; put back the one the model was trained with, or train "
                "again in another --logdir"
            )
    return None


def no_numbers(hp, logdir: str, checkpoint: str) -> Optional[str]:
    """Find weights that are not finite, or so large that their products are not."""
    import numpy as np

    from transformer.runtime import tensors  # needs TensorFlow

    for name, array in sorted(tensors.read(checkpoint).items()):
        bad = int((~(np.abs(array) < TOO_LARGE)).sum())  # NaN is not less, either
        if bad and array.dtype.kind == "f":
            return (
                f"{bad} of {array.size} numbers of {name} are NaN, infinite or above "
                f"{TOO_LARGE:g}: training diverged, or the file was damaged; choose "
                "another --checkpoint, or train again with a lower --learning_rate"
            )
    return None


def too_few_steps(hp, logdir: str, checkpoint: str) -> Optional[str]:
    """Find training that ended too soon, by the warm-up or by the dev scores."""
    from transformer.runtime import checkpoints  # needs TensorFlow

    step, rows = checkpoints.step_of(checkpoint), read_dev_scores(logdir)
    rows = [row for row in rows if row.get("dev") == rows[-1].get("dev")]
    if step < hp.warmup_steps:
        return (
            f"step {step} is before the end of the warm-up, {hp.warmup_steps} "
            f"(--warmup_steps): train for longer (--max_steps {hp.max_steps}), or "
            "shorten the warm-up"
        )
    if len(rows) > 1 and rows[-1]["step"] == step:
        before, now = rows[-2:]
        losses = before.get("loss", 0), now.get("loss", 0)  # not in every row
        if now["bleu"] > 1.1 * before["bleu"] + 0.5 or losses[1] < 0.9 * losses[0]:
            return (
                f"from step {before['step']} to {step} dev BLEU went from "
                f"{before['bleu']:.1f} to {now['bleu']:.1f}, dev loss from "
                f"{losses[0]:.2f} to {losses[1]:.2f}: it still learns; "
                f"train for longer than --max_steps {hp.max_steps}"
            )
    return None


# What keeps a model from translating.
UNUSABLE: Dict[str, Callable] = {
    "a vocabulary that is not the model's": other_vocabulary,
    "weights that are no numbers": no_numbers,
}
# What explains a low BLEU; of a good model, these say nothing.
UNFINISHED: Dict[str, Callable] = {"too few steps": too_few_steps}


# The command


def gather(args, hp, checkpoint: str) -> Tuple[Texts, str]:
    """Return the lines to look at, and where the translations come from."""
    has_data = os.path.isfile(os.path.join(hp.data, "corpus.json"))
    known = load_text(hp.data, "dev") if has_data else None
    text = read_parallel(hp.data, args.split, args.files)
    path = args.translations or translations_path(checkpoint, text.name)
    if args.translations or os.path.isfile(path):
        translations = list(read_lines(path))
    else:
        path = "translated now"
        translations = translate(hp, args.logdir, checkpoint, text.sources)
    if len(translations) != len(text.sources):
        raise ValueError(
            f"{text.name}: found {len(text.sources)} source lines and "
            f"{len(translations)} translations ({path}), wanted as many of both: they "
            "do not belong together"
        )
    return Texts(text.sources, text.references, translations, known), path


def translate(hp, logdir, checkpoint, sources):
    """Return the best translation of each line."""
    from transformer.translator import Translator  # needs TensorFlow

    with Translator(hp, logdir) as translator:
        translator.restore(checkpoint)
        return [best.text for best, *_ in translator.translate(sources)]


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_checkpoint(made)
    cli.add_text(made, split="dev")
    made.add_argument(
        "--translations",
        metavar="FILE",
        help="translations of the source [those of eval.py, else made now]",
    )
    return made


def run(args) -> int:
    """Print what is found; return the exit status."""
    hp = hparams.load(args.logdir, cli.given(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.runtime import checkpoints  # needs TensorFlow

    found = checkpoints.find_and_load(
        args.logdir,
        lambda checkpoint: look(args, hp, checkpoint),
        args.checkpoint,
        cli.warner(PROG),
    )
    for name, text in found.items():
        say(f"found: {name}", f"  {text}")
    if not found:
        say("nothing found")
    return 1 if found else 0


def look(args, hp, checkpoint: str) -> Dict[str, str]:
    """Return what is wrong with a checkpoint: name → explanation; print its BLEU."""
    found = check(UNUSABLE, hp, args.logdir, checkpoint)
    if args.translations or not found:
        texts, path = gather(args, hp, checkpoint)
        bleu = score(texts.translations, texts.references).bleu
        step = checkpoint.rsplit("-", 1)[1]
        say(
            f"{len(texts.translations)} translations ({path}), step {step}: BLEU "
            f"{bleu:.2f}"
        )
        if bleu < LOW:
            found.update(check(UNFINISHED, hp, args.logdir, checkpoint))
        found.update(examine(texts))
    return found


def check(checks: Dict[str, Callable], hp, logdir, checkpoint) -> Dict[str, str]:
    """Return what some checks of a log directory find: name → explanation."""
    found = {name: each(hp, logdir, checkpoint) for name, each in checks.items()}
    return {name: text for name, text in found.items() if text}


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
