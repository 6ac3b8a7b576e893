"""A model card in Markdown: what a log directory knows about its model.

Every exported folder has one: README.md. The person who hands the model over adds what
the log directory does not know: what the model is for, who made the corpus, and its
licence.
"""

import dataclasses
import os
import shlex
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from transformer import __version__
from transformer.evaluation import SAMPLES, Score, Scores, score
from transformer.hparams import FIELDS, HParams, has_settings, load, search_settings
from transformer.logdir import manifests
from transformer.logdir.history import read_dev_scores, read_init_from, read_run
from transformer.logdir.names import checkpoint_step, translations_path
from transformer.model import variable_shapes
from transformer.runtime.progress import format_count
from transformer.text.data_folder import read_parallel, read_summary, tokenizer_of
from transformer.text.lines import read_stored_lines

NAME = "README.md"
OF_THE_DATA = ("data", "source_vocab_size", "target_vocab_size", "joint_vocab")


class Exported(NamedTuple):
    """What the card says about an export."""

    title: str  # "for CTranslate2, int8"
    usage: Sequence[str]  # Markdown
    limits: Sequence[str]  # one sentence each


def write(hp: HParams, checkpoint: str, folder: str, exported: Exported) -> None:
    """Write the model card of a checkpoint to the folder of its export."""
    with open(os.path.join(folder, NAME), "w", encoding="utf-8") as file:
        file.write(model_card(hp, checkpoint, exported))


def model_card(
    hp: HParams, checkpoint: str, exported: Exported, samples: int = SAMPLES
) -> str:
    """Write the model card of a checkpoint as Markdown.

    Args:
      hp: the settings, with those of the export's search.
      checkpoint: its path, without file extensions.
      exported: the export.
      samples: the number of bootstrap samples for the intervals; 0: no intervals.
    """
    logdir = os.path.dirname(checkpoint)
    saved = load(logdir) if has_settings(logdir) else hp
    if not os.path.isdir(saved.data):  # it has moved
        saved = dataclasses.replace(saved, data=hp.data)
    segments = read_run(logdir)
    corpus = manifests.read_description(checkpoint).get("corpus", {})
    is_recorded = bool(segments or corpus)  # not so if the checkpoint was imported
    summary = _read_summary(saved.data) if is_recorded else {}
    languages = [summary.get(f"{side}_lang", side) for side in ("source", "target")]
    scores = "None are known for this search, which is not the one of the training run."
    if search_settings(hp) == search_settings(saved):
        scores = _format_scores(
            saved.data, checkpoint, samples, tokenizer_of(languages[1])
        )
    size = sum(int(np.prod(shape)) for shape in variable_shapes(hp).values())
    sections = [
        f"# {languages[0]} → {languages[1]}: a Transformer {exported.title}",
        f"A Transformer of {size:,} parameters in the dialect `{hp.dialect}`: "
        f"{format_count(hp.encoder_blocks, 'encoder block')}, "
        f"{format_count(hp.decoder_blocks, 'decoder block')}, "
        f"{format_count(hp.num_heads, 'head')}, width {hp.d_model}, feed-forward width "
        f"{hp.d_ff}. The "
        f"checkpoint of step {checkpoint_step(checkpoint):,} was exported by "
        f"transformer-tf {__version__}.",
        "## Use\n\n" + "\n".join(exported.usage),
        "## Data\n\n" + _describe_data(saved, is_recorded, corpus, summary),
        "## Scores\n\n" + scores,
        "## Settings\n\n" + _describe_training(saved, logdir, segments),
        "## Limits\n\n" + _list_limits(hp, exported.limits),
        "## Licence\n\nThe program, transformer-tf, is under the Apache License 2.0. "
        "The log directory does not record the terms under which the corpus, and what "
        "was learned from it, may be used.",
    ]
    return "\n\n".join(sections) + "\n"


def _read_summary(folder: str) -> Dict[str, Any]:
    """Read corpus.json; return {} if the data folder is missing."""
    try:
        return read_summary(folder)
    except (OSError, ValueError):
        return {}


def _describe_data(hp, is_recorded, checksums, summary):
    """Write the section on the training data.

    Args:
      hp: the settings.
      is_recorded: whether the log directory records the corpus.
      checksums: file name → SHA-256.
      summary: the content of corpus.json.
    """
    name = os.path.basename(os.path.normpath(hp.data))
    vocabulary = (
        f"one vocabulary of {hp.source_vocab_size:,} pieces"
        if hp.joint_vocab
        else f"{hp.source_vocab_size:,} source and {hp.target_vocab_size:,} target "
        "pieces"
    )
    if not is_recorded:
        return f"The log directory does not record the corpus. It has {vocabulary}."
    lines = [f"The corpus `{name}`, {vocabulary}.", ""]
    rows = summary.get("splits", {})
    if rows:
        lines += [
            "| split | pairs | source pieces | target pieces |",
            "|---|---|---|---|",
        ]
    for split, row in rows.items():
        numbers = (row["pairs"], row["source_tokens"], row["target_tokens"])
        lines.append(f"| {split} | " + " | ".join(f"{x:,}" for x in numbers) + " |")
    if not rows:
        lines.append("The data folder was not there when the model was exported.")
    sums = [
        f"`{name}` {checksums[name][:16]}…"
        for name in sorted(checksums)
        if "train." in name
    ]
    if sums:
        lines += ["", "SHA-256 of what it was trained on: " + ", ".join(sums) + "."]
    return "\n".join(lines)


def _format_scores(data, checkpoint, samples, tokenizer):
    """Write the section on the scores that are known, with their signatures."""
    rows = []
    step = checkpoint_step(checkpoint)
    dev_scores = read_dev_scores(os.path.dirname(checkpoint))
    for row in [row for row in dev_scores if row["step"] == step][-1:]:
        chrf = f"{row['chrf']:.2f}" if "chrf" in row else "–"
        rows.append(f"| dev, while training | {row['bleu']:.2f} | {chrf} |")
    signatures = score([""], [""], tokenizer=tokenizer)
    for split in ("dev", "test"):
        scores = _score_written(data, checkpoint, split, samples)
        if scores:
            signatures = scores
            cells = [_format_score(scores["bleu"]), _format_score(scores["chrf"])]
            rows.append(f"| {split} | " + " | ".join(cells) + " |")
    if not rows:
        return "None are known: `transformer-tf eval` measures them."
    return "\n".join(
        [
            "| text | BLEU (95 % interval) | chrF2 (95 % interval) |",
            "|---|---|---|",
            *rows,
            "",
            f"sacreBLEU: `{signatures['bleu'].signature}` and "
            f"`{signatures['chrf'].signature}`; of translations by TensorFlow.",
        ]
    )


def _format_score(score: Score) -> str:
    """Write a score with its interval, if there is one."""
    limits = " ({:.2f} to {:.2f})".format(*score.interval) if score.interval else ""
    return f"{score.value:.2f}{limits}"


def _score_written(data, checkpoint, split, samples) -> Optional[Scores]:
    """Score the translations that `eval` wrote; return None if there are none."""
    path = translations_path(checkpoint, split)
    try:
        text = read_parallel(data, split)
        translations = list(read_stored_lines(path))
        return score(translations, text.references, samples, tokenizer=text.tokenizer)
    except (OSError, ValueError):
        return None


def _describe_training(hp, logdir, segments):
    """Write the command that trained the model, and the versions that it used."""
    if not segments:  # it was imported or averaged
        return "The log directory does not record how the model was trained."
    flags = [
        f"--{name} {shlex.quote(str(getattr(hp, name)))}"
        for name, field in FIELDS.items()
        if getattr(hp, name) != field.default and name not in OF_THE_DATA
    ]
    data = shlex.quote("data/" + os.path.basename(os.path.normpath(hp.data)))
    logs = shlex.quote("logs/" + os.path.basename(os.path.realpath(logdir)))
    parent = read_init_from(segments)
    if parent:
        first = shlex.quote("logs/" + os.path.basename(parent))
        flags.insert(0, f"--init_from {first}")
    lines = [
        "```",
        f"transformer-tf train --data {data} --logdir {logs} \\",
        "    " + " ".join(flags),
        f"transformer-tf eval --logdir {logs}",
        "```",
    ]
    for row in segments[-1:]:
        versions = ", ".join(
            f"{name} {version}" for name, version in row["versions"].items()
        )
        lines += ["", f"Trained with {versions}."]
    return "\n".join(lines)


def _list_limits(hp, of_export: Sequence[str]) -> str:
    """List the limits of the model and of its export."""
    limits: List[str] = [
        "It was trained on sentences: split a paragraph first.",
        f"A line is cut off after {hp.max_source_length:,} pieces; a translation has "
        f"at most {hp.max_extra_length} more than its source.",
        "It knows only the kind of text that it was trained on. On other text it may "
        "be fluent but wrong; nothing here measures that.",
        *of_export,
    ]
    return "\n".join(f"* {limit}" for limit in limits)
