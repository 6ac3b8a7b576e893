"""Explain a BLEU near zero: what is wrong with the translations, or with the model.

    python scripts/doctor.py --logdir logs/mine
    python scripts/doctor.py --logdir logs/mine --files test.de test.en

It reads the translations that eval.py wrote, or makes them. Exit status 0: nothing was
found; 1: something was; 2: it could not look.
"""

import filecmp
import os
from typing import Callable, Dict, Optional, Tuple

import hparams
from transformer.evaluation import load_text, read_parallel, score, translations_path
from transformer.runtime import cli
from transformer.runtime.reporting import read_dev_scores
from transformer.symptoms import Texts, examine
from transformer.text.lines import read_lines
from transformer.text.vocabulary_files import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    load_vocabularies,
)

PROG = "doctor.py"

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


def too_few_steps(hp, logdir: str, checkpoint: str) -> Optional[str]:
    """Find training that ended too soon, by the warm-up or by the dev scores."""
    from transformer.runtime import checkpoints  # needs TensorFlow

    step, rows = checkpoints.step_of(checkpoint), read_dev_scores(logdir)
    if step < hp.warmup_steps:
        return (
            f"step {step} is before the end of the warm-up, {hp.warmup_steps} "
            f"(--warmup_steps): train for longer (--max_steps {hp.max_steps}), or "
            "shorten the warm-up"
        )
    if len(rows) > 1 and rows[-1]["step"] == step:
        before, now = rows[-2:]
        if (
            now["bleu"] > 1.1 * before["bleu"] + 0.5
            or now["loss"] < 0.9 * before["loss"]
        ):
            return (
                f"from step {before['step']} to {step} dev BLEU went from "
                f"{before['bleu']:.1f} to {now['bleu']:.1f}, dev loss from "
                f"{before['loss']:.2f} to {now['loss']:.2f}: it still learns; "
                f"train for longer than --max_steps {hp.max_steps}"
            )
    return None


LOGDIR_CHECKS: Dict[str, Callable] = {
    "a vocabulary that is not the model's": other_vocabulary,
    "too few steps": too_few_steps,
}


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
        help="of the source [what eval.py wrote, else made now]",
    )
    return made


def run(args) -> int:
    """Print what is found; return the exit status."""
    hp = hparams.load(args.logdir, cli.given(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.runtime import checkpoints  # needs TensorFlow

    checkpoint = checkpoints.find(args.logdir, args.checkpoint, cli.warner(PROG))
    found = {
        name: check(hp, args.logdir, checkpoint)
        for name, check in LOGDIR_CHECKS.items()
    }
    found = {name: text for name, text in found.items() if text}
    if "a vocabulary that is not the model's" not in found or args.translations:
        texts, path = gather(args, hp, checkpoint)
        bleu = score(texts.translations, texts.references).bleu
        print(
            f"{len(texts.translations)} translations ({path}), step "
            f"{checkpoints.step_of(checkpoint)}: BLEU {bleu:.2f}"
        )
        found.update(examine(texts))
    for name, text in found.items():
        print(f"found: {name}\n  {text}")
    if not found:
        print("nothing found")
    return 1 if found else 0


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
