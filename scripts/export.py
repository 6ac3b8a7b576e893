"""Write a trained model in the format of other software: CTranslate2, so far.

    Example:

    python scripts/export.py --format ctranslate2 --logdir logs/sample --out exported \\
            --quantization int8 --check 200
"""

import dataclasses

import hparams
from transformer.runtime import cli
from transformer.runtime.folders import new_folder, refuse_used
from transformer.runtime.terminal import say

MODEL = "model.bin"  # a file of CTranslate2: what was exported before may be replaced


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("export.py", __doc__)
    made.add_argument("--format", required=True, help="ctranslate2")
    cli.add_checkpoint(made)
    made.add_argument(
        "--out", required=True, metavar="DIR", help="the folder that is written"
    )
    made.add_argument(
        "--quantization",
        default="float32",
        metavar="TYPE",
        choices=["float32", "int8"],
        help="float32 or int8 [float32]",
    )
    made.add_argument(
        "--check",
        type=int,
        default=0,
        metavar="N",
        help="translate N lines of the test split with both, greedily "
        "and by beam search [0]",
    )
    cli.add_data(made)
    return made


def run(args) -> None:
    """Write the model; compare its translations with ours."""
    refuse_used(args.out, "--out", MODEL)
    hp = hparams.load(args.logdir, cli.given(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.export import EXPORT_FORMATS

    cli.refuse_unknown("format", args.format, EXPORT_FORMATS)
    exported = EXPORT_FORMATS[args.format]
    with new_folder(args.out, "--out", MODEL) as made:
        exported.write(hp, args.logdir, args.checkpoint, made, args.quantization)
    say(f"{args.format}, {args.quantization}: {args.out}")
    if args.check:
        check(args, hp, exported)


def check(args, hp, exported) -> None:
    """Print how many lines of the test split both translate alike."""
    from transformer.evaluation import load_text

    lines = [line for line in load_text(hp.data, "test")[0] if line.strip()]
    for search in ("greedy", "beam"):
        pairs = exported.compare(
            dataclasses.replace(hp, search=search),
            args.logdir,
            args.checkpoint,
            args.out,
            lines[: args.check],
        )
        gaps = [
            abs(ours.score - theirs.score)
            for ours, theirs in pairs
            if ours.text == theirs.text
        ]
        say(
            f"{search}: {len(gaps)} of {len(pairs)} translations equal ours "
            "(length penalty 0); worst difference of their scores "
            f"{max(gaps, default=0):.2g}"
        )


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
