"""Compare the translations of the page with TensorFlow's, on the whole dev split.

    python tools/bench/page/compare_ids.py --logdir logs/multi30k

The engine of the page runs in node. For float32 weights, beam and
greedy, and for int8 weights, beam, the lines are counted whose best translation has
other ids than TensorFlow's, beside the BLEU of both. For each line that differs with
float32, the difference of its score from that of TensorFlow's translation is printed:
rounding can only change translations whose scores are nearly equal.
"""

import argparse
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
sys.path[:0] = [ROOT, os.path.join(ROOT, "tests")]

from javascript import run_node  # noqa: E402

from transformer import hparams  # noqa: E402
from transformer.commands import cli  # noqa: E402
from transformer.exports.weights import INT8, export_weights  # noqa: E402
from transformer.logdir import manifests  # noqa: E402
from transformer.text.data_folder import load_text  # noqa: E402
from transformer.viewer import page_files  # noqa: E402
from transformer.viewer.model_page import encode_base64  # noqa: E402

PROGRAM = """
const decode = (text) => Uint8Array.from(Buffer.from(text, "base64"));
const kernels = chooseKernels(decode(input.kernels));
const engine = new Engine(decode(input.weights), kernels);
return input.lines.map((line) => engine.search(engine.encode(line), []).nBest[0]);
"""
CASES = [("float32", "beam"), ("float32", "greedy"), (INT8, "beam")]


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser("compare_ids.py", __doc__)
    parser.add_argument("--logdir", required=True, help="a trained model")
    cli.add_number(parser, "lines", 0, "of the dev split; 0: all")
    return parser


def run(args: argparse.Namespace) -> None:
    """Compare, and print."""
    cli.start_tensorflow(args.verbose)
    from sacrebleu import corpus_bleu

    sources, references = load_text(hparams.load(args.logdir).data, "dev")
    count = args.lines or len(sources)
    sources, references = sources[:count], references[:count]
    [checkpoint, *_] = manifests.list_candidates(args.logdir)
    for weights, search in CASES:
        hp = hparams.load(args.logdir, {"search": search})
        exported = export_weights(hp, checkpoint, weights)
        data = {
            "lines": sources,
            "weights": encode_base64(exported),
            "kernels": encode_base64(page_files.read_bytes(page_files.KERNELS)),
        }
        expected = search_with_tensorflow(args.logdir, search, sources)
        actual = run_node(PROGRAM, data)
        differing = [i for i in range(count) if actual[i]["ids"] != expected[i]["ids"]]
        bleu = [
            corpus_bleu([best["text"] for best in bests], [references]).score
            for bests in (actual, expected)
        ]
        print(
            f"{weights}, {search}: {len(differing):,} of {count:,} lines differ; "
            f"BLEU {bleu[0]:.2f}, TensorFlow {bleu[1]:.2f}"
        )
        for i in differing if weights != INT8 else []:
            gap = actual[i]["score"] - expected[i]["score"]
            print(f"  line {i + 1}: score {expected[i]['score']:.6f}, gap {gap:.1e}")


def search_with_tensorflow(logdir: str, search: str, lines: list) -> list:
    """Return {"ids", "score", "text"} for each line."""
    from transformer.translator import Translator

    with Translator(logdir, search=search) as translator:
        target = translator.vocabularies.target
        bests = []
        for source in translator.encode(lines):
            hypotheses = translator.search_line(source)
            ids = target.strip_special(hypotheses.ids[0][0])
            score = float(hypotheses.scores[0][0])
            bests.append({"ids": ids, "score": score, "text": target.decode(ids)})
    return bests


if __name__ == "__main__":
    cli.main(parser(), run)
