"""Advice for the command line: an exception of the package → what to type.

The package raises exceptions with facts (`runtime/errors.py`). A command that fails
shows the message, and after it the advice for the class of the exception.
"""

import os
import shlex
from typing import Any, Callable, Dict, Type

from transformer.commands.terminal import command_line, command_name
from transformer.logdir.names import RUN, SETTINGS
from transformer.runtime import errors


def advise_on_vocabulary(error: errors.VocabularyNotFound) -> str:
    """Return where a vocabulary comes from."""
    if not error.folder:
        return f"create it with {command_name('prepare')}"
    if not os.path.isdir(error.folder):
        return "check the path"
    return (
        f"for a data folder, run {command_line('prepare', '--out', error.folder)}; for "
        "a log directory, copy the vocabulary of its data folder"
    )


def advise_on_equal_sides(error: errors.SidesEqual) -> str:
    """Return how to cut a file with both languages."""
    path = shlex.quote(error.path)
    if error.separator == "\t":
        cut, columns = "cut", ("-f1", "-f2")
    elif error.separator == "|||":
        cut, columns = "awk -F ' *[|]{3} *'", ("'{print $1}'", "'{print $2}'")
    else:
        return "write each language into a file of its own, and name both files"
    commands = [
        f"{cut} {column} {path} > {path}.{side}"
        for column, side in zip(columns, ("source", "target"))
    ]
    return f"cut its columns: {'; '.join(commands)}"


def advise_on_sides(error: errors.SidesInOneFile) -> str:
    """Return how to name one of the texts in a file."""
    names = [f"{error.path}#{label}" for label in error.labels]
    return f"name one of them: {' or '.join(map(shlex.quote, names[:4]))}"


def advise_on_json(error: errors.JsonFileError) -> str:
    """Return how to get a file back, for example the settings of a log directory."""
    logdir, name = os.path.split(error.path)
    run = os.path.join(logdir, RUN)
    if name != SETTINGS or not os.path.isfile(run):
        return "put back a copy of it"
    program = "import json, sys; print(json.dumps(json.load(sys.stdin)['settings']))"
    return (
        "put back a copy of it, or the settings with which training last began: "
        f"tail -n 1 {shlex.quote(run)} | python3 -c {shlex.quote(program)} > "
        f"{shlex.quote(error.path)}"
    )


# Programs that unpack an archive, and those that decompress a stream.
UNPACK = {"tar": "tar xf", "zip": "unzip", "7z": "7z x", "rar": "unrar x"}
DECOMPRESS = {
    "gzip": "gunzip",
    "compress": "gunzip",
    "bzip2": "bunzip2",
    "xz": "unxz",
    "lzma": "unlzma",
    "zstd": "unzstd",
    "lz4": "unlz4",
}
COMPRESSED_ENDINGS = (".bz2", ".xz", ".lzma", ".zst", ".lz4", ".z")
DOCUMENTS = (".docx", ".odt", ".xlsx", ".ods", ".pptx")  # zip archives


def advise_on_other_bytes(error: errors.FileNotText) -> str:
    """Return how to make text in UTF-8 of a file of another kind."""
    path, kind = error.path, error.kind
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(path)
    plain = stem
    if ending.lower() not in COMPRESSED_ENDINGS:
        plain = os.path.join(folder, f"plain.{name}")
    quoted, output = shlex.quote(path), shlex.quote(plain)
    if kind == "text":
        return f"rename it: mv {quoted} {shlex.quote(stem)}"
    if kind == "gzip" and not path.lower().endswith(".gz"):
        return f"give it a name that ends in .gz: mv {quoted} {quoted}.gz"
    if kind.startswith("UTF-"):
        return f"convert it with iconv -f {kind} -t UTF-8 < {quoted} > {output}"
    if kind in DECOMPRESS:
        return f"unpack it with {DECOMPRESS[kind]} < {quoted} > {output}"
    if kind in UNPACK and not path.lower().endswith(DOCUMENTS):
        return f"unpack it with {UNPACK[kind]} {quoted}"
    return "save it as plain text in UTF-8, one sentence per line"


# The extension point for advice: exception class → a function of the exception that
# returns what to do about it, or "". A class without a row has the advice of its base.
ADVICE: Dict[Type[Exception], Callable[[Any], str]] = {
    errors.TextNotFound: lambda error: (
        f"name the files with --{error.split} SOURCE TARGET, or their endings with "
        "--source_lang and --target_lang"
    ),
    errors.SidesEqual: advise_on_equal_sides,
    errors.SidesInOneFile: advise_on_sides,
    errors.SidesReversed: lambda error: "change the order of the two files",
    errors.FileNotText: advise_on_other_bytes,
    errors.DataFolderNotPrepared: lambda error: (
        "name the folder with --data, or run "
        + command_line("prepare", "--out", error.folder)
    ),
    errors.DataFolderChanged: lambda error: (
        f"run {command_name('prepare')} again, with the same flags"
    ),
    errors.ShardsFailed: lambda error: "run the same command again",
    errors.ShardsMissing: lambda error: (
        "translate them first, with --logdir and --input instead of --join"
    ),
    errors.VocabularyNotFound: advise_on_vocabulary,
    errors.VocabularyFileError: lambda error: (
        f"create it with {command_name('prepare')}"
    ),
    errors.CorpusVocabularyMismatch: lambda error: (
        f"prepare the corpus with --vocab_from {error.expected}, or choose another "
        "--logdir"
    ),
    errors.VocabularyMismatch: lambda error: "choose another --data, or --logdir",
    errors.VocabulariesAmbiguous: lambda error: (
        "--src_vocab and --tgt_vocab say which of the two tables is the source's"
    ),
    errors.VocabularySizeError: lambda error: (
        f"lower --vocab_size to {error.largest}"
        if error.largest
        else "raise --vocab_size"
    ),
    errors.CheckpointNotFound: lambda error: (
        f"{command_name('train')} writes checkpoints"
    ),
    errors.VariableNamesError: lambda error: (
        "if its variables have other names, rename them with --names"
    ),
    errors.WeightsNotFinite: lambda error: (
        "choose another --checkpoint, or train again with a lower --learning_rate"
    ),
    errors.RayClusterNotFound: lambda error: (
        "start a cluster with `ray start --head`, and give its machines and this one "
        "the same ~/.ray/auth_token: docs/scaling.md"
    ),
    errors.ExportNotFound: lambda error: (
        "translate a line with --engine ctranslate2, which exports it"
    ),
    errors.ExportNotWritable: lambda error: (
        "run translate with this engine once where the log directory can be written, "
        "or use --engine tensorflow"
    ),
    errors.ExportDiffers: lambda error: "use --engine tensorflow",
    errors.JsonFileError: advise_on_json,
    errors.LogDirectoryNotFound: lambda error: f"{command_name('train')} writes one",
    errors.LogDirectoryInUse: lambda error: "choose another --logdir",
    errors.CorpusChanged: lambda error: (
        "restore it, choose another --logdir, or continue with this one: "
        "--accept_changes"
    ),
    errors.PlanDiffers: lambda error: "choose another --shards, or change that back",
    errors.ArchitectureMismatch: lambda error: f"choose another --{error.argument}",
    errors.ProgramNotFound: lambda error: (
        f"write -- {command_name('train')} --logdir DIR"
    ),
}


def advice_for(error: Exception) -> str:
    """Return the advice for an exception, as "; do …", or "" if no row matches."""
    for kind in type(error).__mro__:
        if kind in ADVICE:
            text = ADVICE[kind](error)
            return text and f"; {text}"
    return ""
