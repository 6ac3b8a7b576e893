"""Read, write and verify corpus.json, the summary of a data folder."""

import json
import os
from typing import Any, Dict, Iterable, Sequence, Tuple

from transformer.runtime.files import regular, replaced, sha256_of, sync
from transformer.runtime.folders import Moves
from transformer.runtime.formats import read_json, stamped
from transformer.text.lines import check_language
from transformer.text.vocabulary_files import Vocabularies

SUMMARY = "corpus.json"


def read_summary(folder: str) -> Dict[str, Any]:
    """Return the content of corpus.json.

    Raises:
      FileNotFoundError: there is none.
      ValueError: it is broken, or its languages would lead to a file elsewhere.
    """
    path = regular(os.path.join(folder, SUMMARY))
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"found no {path}, wanted a folder that prepare.py has written to its end: "
            f"name it with --data, or run prepare.py --out {folder} (again)"
        )
    wanted = "what prepare.py writes: run it again"
    summary = read_json(path, wanted)
    try:
        languages = summary["source_lang"], summary["target_lang"]
        splits, sums = summary.get("splits", {}), summary.get("sha256", {})
        if not (isinstance(splits, dict) and isinstance(sums, dict)):
            raise ValueError("splits or sha256")
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"{path}: found no languages, splits and checksums ({error!r}), wanted "
            f"{wanted}"
        ) from error
    for language in languages:
        check_language(language, path)
    return summary


def summary_of(
    languages: Sequence[str],
    vocabularies: Vocabularies,
    kind: str,
    reports: Dict[str, Dict[str, Any]],
) -> Dict[str, Any]:
    """Return what corpus.json says: languages, vocabulary, the report of each split.

    Args:
      languages: of source and target.
      vocabularies: of both.
      kind: how they were made: "bpe", "unigram" or "given".
      reports: split → what `encode_split` returned.
    """
    return {
        "source_lang": languages[0],
        "target_lang": languages[1],
        "vocab": {
            "source_size": vocabularies.source.size,
            "target_size": vocabularies.target.size,
            "joint": vocabularies.joint,
            "type": kind,
        },
        "splits": reports,
    }


def write_summary(
    folder: str, summary: Dict[str, Any], paths: Iterable[str] = ()
) -> None:
    """Write corpus.json, with the checksums of the files that belong to it.

    Args:
      folder: where it is written.
      summary: its content.
      paths: the files, which need not be in `folder` yet.
    """
    by_name = sorted((os.path.basename(path), path) for path in paths)
    sums = {name: sha256_of(path) for name, path in by_name}
    summary = stamped(dict(summary, sha256=sums))
    with replaced(os.path.join(folder, SUMMARY)) as file:
        json.dump(summary, file, indent=2)
        file.write("\n")


def publish(work: str, out: str, old: Iterable[str]) -> None:
    """Move the files of a finished corpus to their place, corpus.json last.

    The old one is removed first: while it is missing, there is no corpus. Killed at any
    moment, this leaves the old corpus, none, or the new one.

    Args:
      work: the folder that holds the files.
      out: the data folder, on the same file system; it is made if need be.
      old: the names of files that an earlier corpus may have, and this one may not.

    Raises:
      OSError: a file could not be moved; the old corpus is there as before.
    """
    new = sorted(set(os.listdir(work)) - {SUMMARY})
    gone = [name for name in old if name not in new]
    for name in [*new, SUMMARY]:
        sync(os.path.join(work, name))
    aside = os.path.join(work, "old")
    os.mkdir(aside)
    os.makedirs(out, exist_ok=True)
    with Moves() as moves:
        for name in [SUMMARY, *gone]:
            moves.move(os.path.join(out, name), os.path.join(aside, name))
            sync(out)  # whatever else is on the disk, corpus.json is not
        for name in new:
            kept = os.path.join(aside, name)
            moves.replace(os.path.join(work, name), os.path.join(out, name), kept)
        sync(out)
        moves.move(os.path.join(work, SUMMARY), os.path.join(out, SUMMARY))
        sync(out)


def text_paths(folder: str, split: str) -> Tuple[str, str]:
    """Return the paths of the source and the target text of a split.

    Raises:
      FileNotFoundError, ValueError: as `read_summary` does; there is no such split.
    """
    summary = read_summary(folder)
    with_text = [each for each in summary.get("splits", {}) if each != "train"]
    if with_text and split not in with_text:
        raise ValueError(
            f"--split {split}: found no such text in {folder}, wanted one of "
            f"{', '.join(with_text)}; or name two text files with --files"
        )
    source, target = (
        os.path.join(folder, f"{split}.{summary[side]}")
        for side in ("source_lang", "target_lang")
    )
    return regular(source), regular(target)


def verify(folder: str, but: str = "test.") -> None:
    """Raise ValueError where a file of a data folder is not the one that was prepared.

    A folder that an older prepare.py wrote has no checksums: nothing is compared.

    Args:
      folder: the data folder.
      but: files whose names begin so are not needed, and may have changed.
    """
    for name, wanted in read_summary(folder).get("sha256", {}).items():
        if name.startswith(but):
            continue
        path = os.path.join(folder, name)
        if os.path.basename(name) != name or not os.path.isfile(regular(path)):
            raise ValueError(
                f"{folder}: found no file {name!r}, wanted the one that {SUMMARY} "
                f"names: run prepare.py again"
            )
        if sha256_of(path) != wanted:
            raise ValueError(
                f"{path}: found another file than the one that {SUMMARY} names, wanted "
                f"the same: it was changed, or prepare.py was killed; run prepare.py "
                f"--out {folder} again"
            )
