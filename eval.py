"""Score a trained model: BLEU and chrF of a split, or of any two files.

    python eval.py --logdir logs/sample --split test
    python eval.py --logdir logs/sample --files news.de news.en --json scores.json

The translations are written beside the checkpoint.
"""

import json
from typing import List, Optional

import hparams
from transformer.runtime import cli, files

PROG = "eval.py"


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_checkpoint(made)
    cli.add_text(made, split="test")
    made.add_argument("--json", metavar="FILE", help="write the scores there too")
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args) -> None:
    """Translate, print the scores, write the translations."""
    hp = hparams.load(args.logdir, cli.given(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    # Only here: TensorFlow, which most of them import, takes seconds.
    from transformer.evaluation import evaluate, read_parallel, translations_path
    from transformer.runtime import checkpoints
    from transformer.translator import Translator

    text = read_parallel(hp.data, args.split, args.files)
    with Translator(hp, args.logdir) as translator:
        checkpoint = translator.restore_found(args.checkpoint, cli.warner(PROG))
        scores, hypotheses = evaluate(translator, text.sources, text.references)
    written = translations_path(checkpoint, text.name)
    fault = write_lines(written, hypotheses)
    print(
        f"{len(text.sources)} lines of {text.name}, step "
        f"{checkpoints.step_of(checkpoint)}: {fault and 'not written' or written}"
    )
    print(f"BLEU = {scores.bleu:.2f}\n{scores.bleu_signature}")
    print(f"chrF2 = {scores.chrf:.2f}\n{scores.chrf_signature}")
    if args.json:
        found = dict(
            scores._asdict(),
            lines=len(text.sources),
            checkpoint=checkpoint,
            translations=None if fault else written,
        )
        with open(args.json, "w", encoding="utf-8") as file:  # /dev/stdout too
            json.dump(found, file, indent=2)
    if fault:
        raise OSError(
            f"{written} could not be written: {fault.strerror}; the scores are "
            "complete; for the translations, copy the log directory to where there is "
            "room and permission, and score it there"
        )


def write_lines(path: str, lines: List[str]) -> Optional[OSError]:
    """Write a text file; return the error where that was not possible."""
    try:
        with files.replaced(path) as file:
            file.writelines(line + "\n" for line in lines)
    except OSError as error:
        return error
    return None


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
