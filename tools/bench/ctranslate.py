"""Worker for CTranslate2, with our checkpoint exported by scripts/export.py."""

import os

import ctranslate2
import sentencepiece
import work
from worker import Measure, serve

from transformer import hparams


def open_decoding(spec: dict) -> Measure:
    """Return a function that measures translation."""
    folder = spec["exported"]
    text = sentencepiece.SentencePieceProcessor(
        model_file=os.path.join(folder, "spm.model")
    )
    translator = ctranslate2.Translator(
        folder,
        device="cuda" if spec["device"] == "gpu" else "cpu",
        compute_type=spec["precision"],
        intra_threads=spec["threads"],
    )

    extra_length = hparams.load(spec["logdir"]).max_extra_length

    def translate(lines, batch):
        pieces = text.encode(lines, out_type=str)
        order = sorted(range(len(lines)), key=lambda i: len(pieces[i]))
        hypotheses = {}
        for start in range(0, len(order), batch):
            indices = order[start : start + batch]
            results = translator.translate_batch(
                [pieces[i] for i in indices],
                beam_size=spec["beam_size"],
                length_penalty=0,
                max_decoding_length=len(pieces[indices[-1]]) + extra_length,
            )
            hypotheses.update(zip(indices, (x.hypotheses[0] for x in results)))
        return text.decode([hypotheses[i] for i in range(len(lines))])

    return work.measure_decoding(translate, work.test_lines(spec["data"])[0])


if __name__ == "__main__":
    serve({"decode": open_decoding})
