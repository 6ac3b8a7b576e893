"""A log directory and a data folder as this version writes them, kept for later ones.

    python tests/format_fixture.py

writes tests/formats/VERSION/ (on TensorFlow 1.15, VERSION-tensorflow1): an archive of
both, and what the model translates. What a version wrote is recorded once: where that
folder exists, nothing is written.
"""

import argparse
import glob
import io
import json
import os
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WRITTEN_FOLDERS = os.path.join(ROOT, "tests", "formats")
LINES = ["1 2 3 4", "9 8 7 6 5", "3 1 4 1 5 9", "2 7"]
SIZES = {"train": 60, "dev": 4, "test": 4}
FLAGS = [
    "--d_model=8",
    "--d_ff=16",
    "--max_steps=60",
    "--warmup_steps=20",
    "--save_every=20",
    "--eval_every=20",
    "--log_every=20",
    "--keep_checkpoints=2",
]


def make(folder):
    """Writes data and logs, without a trace of this machine; returns translations."""
    import corpora  # trains models: not where only `unpack` is wanted

    from transformer import hparams
    from transformer.translator import Translator

    data = corpora.prepare_corpus(folder + "/data", corpora.reversed_symbols(SIZES))
    logs = folder + "/logs"
    corpora.run_train(data, logs, *FLAGS)
    with Translator.for_settings(hparams.load(logs), logs) as translator:
        translator.find_and_restore()
        translations = [best for best, *_ in translator.translate(LINES)]
    os.remove(logs + "/lock")
    [events] = glob.glob(logs + "/events.*")
    os.rename(events, logs + "/events.out.tfevents.1.fixture")
    for name in ("hparams.json", "run.jsonl"):
        with open(f"{logs}/{name}", encoding="utf-8") as file:
            text = file.read().replace(json.dumps(data), '"data"')
        with open(f"{logs}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    return [
        {"text": translation.text, "score": float(translation.score)}
        for translation in translations
    ]


def pack(folder, path):
    """Archives a folder; equal files take no more room than one."""
    with tarfile.open(path, "w:xz") as archive:
        for parent, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                path_in_archive = os.path.relpath(os.path.join(parent, name), folder)
                with open(os.path.join(parent, name), "rb") as file:
                    content = file.read()
                entry = tarfile.TarInfo(path_in_archive)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def unpack(version, folder):
    """Extracts data and logs of a version; returns what its model translated."""
    with tarfile.open(
        os.path.join(WRITTEN_FOLDERS, version, "folders.tar.xz")
    ) as archive:
        archive.extractall(str(folder))
    path = os.path.join(WRITTEN_FOLDERS, version, "translations.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    import tensorflow.compat.v1 as tf

    from transformer import __version__

    tf.disable_eager_execution()
    name = __version__ if tf.__version__ >= "2" else __version__ + "-tensorflow1"
    folder_of_version = os.path.join(WRITTEN_FOLDERS, name)
    if os.path.exists(folder_of_version):
        raise SystemExit(
            f"{folder_of_version}: expected no such folder, got one; it stays as it is"
        )
    os.mkdir(folder_of_version)
    with tempfile.TemporaryDirectory() as folder:
        translations = make(folder)
        pack(folder, os.path.join(folder_of_version, "folders.tar.xz"))
    path = os.path.join(folder_of_version, "translations.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(translations, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
