"""Worker for CTranslate2, with our checkpoint exported by scripts/export.py."""

import os

import ctranslate2
import sentencepiece
import work
from worker import Measure, serve


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

    def translate(lines, batch):
        results = translator.translate_batch(
            text.encode(lines, out_type=str),
            beam_size=spec["beam_size"],
            length_penalty=0,
            max_batch_size=batch,
        )
        return text.decode([result.hypotheses[0] for result in results])

    return work.measure_decoding(translate, work.test_lines(spec["data"])[0])


if __name__ == "__main__":
    serve({"decode": open_decoding})
