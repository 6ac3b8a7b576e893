"""Measure this project's service beside LibreTranslate, with the same model.

    python tools/bench/libretranslate.py --logdir logs/multi30k \\
        --text test_2016_flickr.de val.de

LibreTranslate gets an environment of its own and the exported model in a package for
Argos Translate, the library that it translates with. All services get the same requests
from N clients, in turns: single sentences, and paragraphs of five. No text is sent
twice in a turn.

LibreTranslate runs twice: with its own settings, and with a CTranslate2 thread for each
core and one batch for all sentences of a paragraph, as ours. Both have our beam size,
no limits and no web page; ours have its length penalty, so that the translations are
the same. Instead of the sentence splitter that it downloads, it uses spaCy's rules. At
the end, CTranslate2 translates the same sentences without a service.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from typing import Dict, List, NamedTuple, Sequence

import folders
from service import Answer, percentile, send
from worker import ROOT

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.exports.ctranslate2 import FastTranslator
from transformer.runtime.devices import count_cores
from transformer.serving.languages import name_language
from transformer.text import sentences
from transformer.text.vocabulary import JOINT_MODEL

LIBRETRANSLATE = "LibreTranslate"
ENVIRONMENT = folders.Environment(
    ["libretranslate==1.9.6", "spacy==3.8.18"], [(3, 11), (3, 12), (3, 13), (3, 10)]
)
# Argos Translate 1.12 ranks by log-probability / length ** 0.2, whatever it is told.
LENGTH_PENALTY = ["--length_penalty", "0.2", "--length_penalty_form", "power"]
OURS = {
    "serve --engine ctranslate2": ["--engine", "ctranslate2"],
    "serve": [],
    "serve --decode_precision bfloat16": ["--decode_precision", "bfloat16"],
}
THEIRS = {  # flags, and variables of Argos Translate
    LIBRETRANSLATE: ([], {}),
    "LibreTranslate, a thread a core": (
        ["--threads", "8"],  # requests that it works on at the same time
        {
            "ARGOS_INTER_THREADS": str(count_cores()),
            "ARGOS_INTRA_THREADS": "1",
            "ARGOS_BATCH_SIZE": "1024",  # in tokens
        },
    ),
}
KINDS = {"sentence": 1, "paragraph": 5}  # → sentences of a text
HEAD = (
    "| text | clients | service | sentences/s | p50, ms | p95, ms | CPU, ms/sentence "
    "| sentences/s, ratio | CPU, ratio |"
)


class Service(NamedTuple):
    """A running service."""

    name: str
    process: subprocess.Popen
    url: str

    def cpu_seconds(self) -> float:
        """Return the CPU time of its process so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Turn(NamedTuple):
    """What was measured in one turn of a service."""

    rate: float  # sentences per second
    cpu: float  # milliseconds of CPU time per sentence
    client_cpu: float  # of the clients
    answers: List[Answer]


def write_package(
    folder: str, exported: str, languages: Sequence[str], python: str
) -> None:
    """Write the folder of Argos Translate's packages, with one for our model.

    Args:
      folder: the folder to write.
      exported: our model, exported for CTranslate2.
      languages: source and target.
      python: the interpreter of LibreTranslate's environment.

    Raises:
      ValueError: the model has separate vocabularies for source and target.
    """
    vocabulary = os.path.join(exported, JOINT_MODEL)
    if not os.path.exists(vocabulary):
        raise ValueError(
            "Argos Translate has one SentencePiece model for source and target: "
            "expected a joint vocabulary, got separate ones"
        )
    package = os.path.join(folder, "translate-" + "_".join(languages))
    shutil.copytree(exported, os.path.join(package, "model"))
    shutil.copy(vocabulary, os.path.join(package, "sentencepiece.model"))
    code = "import sys, spacy; spacy.blank(sys.argv[1]).to_disk(sys.argv[2])"
    splitter = os.path.join(package, "spacy")
    subprocess.run(
        [python, "-W", "ignore", "-c", code, languages[0], splitter], check=True
    )
    metadata = {
        f"{end}_{field}": value
        for end, language in zip(("from", "to"), languages)
        for field, value in (("code", language), ("name", name_language(language)))
    }
    # LibreTranslate downloads packages if there are fewer than two.
    for name, content in ((package, metadata), (folder + "/none", {"type": "none"})):
        os.makedirs(name, exist_ok=True)
        with open(os.path.join(name, "metadata.json"), "w", encoding="utf-8") as file:
            json.dump(content, file)


def start_libretranslate(
    stack: contextlib.ExitStack, args: argparse.Namespace, folder: str, exported: str
) -> List[Service]:
    """Start LibreTranslate with each of its settings.

    Args:
      stack: ends them.
      args: the flags.
      folder: an empty one, for its files.
      exported: our model, exported for CTranslate2.
    """
    python = folders.find_python(args.environment, ENVIRONMENT)
    packages = os.path.join(folder, "packages")
    write_package(packages, exported, args.languages, python)
    # spaCy's model for other languages counts as downloaded if this file exists.
    downloaded = os.path.join(folder, "argos-translate", "spacy", "senter", "model")
    os.makedirs(os.path.dirname(downloaded))
    with open(downloaded, "w", encoding="utf-8"):
        pass
    variables = {
        **dict.fromkeys(("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), folder),
        "ARGOS_PACKAGES_DIR": packages,
        "ARGOS_CHUNK_TYPE": "SPACY",
        "ARGOS_BEAM_SIZE": str(hparams.load(args.logdir).num_hypotheses),
        "PYTHONUNBUFFERED": "1",
    }
    services = []
    for name, (flags, more_variables) in THEIRS.items():
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [
            os.path.join(os.path.dirname(python), "libretranslate"),
            *("--port", str(port), "--load-only", ",".join(args.languages)),
            *("--disable-files-translation", "--disable-web-ui", *flags),
        ]
        services.append(start(stack, name, command, {**variables, **more_variables}))
    return services


def start(
    stack: contextlib.ExitStack,
    name: str,
    command: List[str],
    variables: Dict[str, str],
) -> Service:
    """Start a service; wait until it listens. `stack` ends it.

    Raises:
      ChildProcessError: it ended.
    """
    process = stack.enter_context(
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            universal_newlines=True,
            env={**os.environ, **variables},
        )
    )
    stack.callback(process.terminate)
    for line in process.stdout:
        match = re.search(r"http://[\w.]+:\d+", line)
        if match:
            break
    else:
        raise ChildProcessError(f"{name} ended: {' '.join(command)}")
    address = urllib.parse.urlsplit(match[0])
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((address.hostname, address.port)).close()
            return Service(name, process, match[0])
        time.sleep(0.1)
    raise ChildProcessError(f"{name} ended: {' '.join(command)}")


def read_sentences(paths: Sequence[str], language: str) -> List[str]:
    """Read different lines that every splitter takes as one sentence."""
    lines: Dict[str, None] = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines.update(dict.fromkeys(line.strip() for line in file))
    return [
        line
        for line in lines
        if re.fullmatch(r"[^.!?:;\"“„]+\.", line)
        and len(sentences.split(line, language)) == 1
    ]


def count_sentences(clients: int) -> int:
    """Return how many sentences a number of clients sends in a turn."""
    return 120 + 12 * clients


def take_turn(service: Service, texts: List[str], size: int, clients: int, languages):
    """Send texts to a service.

    Args:
      service: the service.
      texts: the texts.
      size: the number of sentences in a text.
      clients: the number of clients that send them at the same time.
      languages: source and target.
    """
    source, target = languages
    bodies = [
        json.dumps({"q": text, "source": source, "target": target}).encode()
        for text in texts
    ]
    count = size * len(texts)
    cpu, client_cpu, begin = (
        service.cpu_seconds(),
        time.process_time(),
        time.perf_counter(),
    )
    answers = send(service.url, bodies, clients)
    seconds = time.perf_counter() - begin
    return Turn(
        count / seconds,
        1000 * (service.cpu_seconds() - cpu) / count,
        1000 * (time.process_time() - client_cpu) / count,
        answers,
    )


def format_row(
    kind: str, clients: int, name: str, turns: List[Turn], base: List[Turn]
) -> str:
    """Return the table row of a service; `base` are the turns of LibreTranslate."""
    waits = [answer.wait for turn in turns for answer in turn.answers]
    # Turns of the same round are compared: the load of the machine changes.
    faster = [turn.rate / other.rate for turn, other in zip(turns, base)]
    cheaper = [other.cpu / turn.cpu for turn, other in zip(turns, base)]
    cells = [
        kind,
        f"{clients}",
        name,
        f"{statistics.median(turn.rate for turn in turns):,.1f}",
        f"{percentile(waits, 50):,.0f}",
        f"{percentile(waits, 95):,.0f}",
        f"{statistics.median(turn.cpu for turn in turns):,.1f}",
        f"{statistics.median(faster):.2f}",
        f"{statistics.median(cheaper):.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def measure(
    services: List[Service], args: argparse.Namespace, lines: List[str]
) -> None:
    """Measure all services in turns; print the table, and how many answers agree."""
    print_lines(HEAD, "|---" * HEAD.count(" |") + "|")
    translations: Dict[str, List[str]] = {}
    client_cpu = []
    for kind, size in KINDS.items():
        for clients in args.clients:
            texts = [
                " ".join(lines[i : i + size])
                for i in range(0, len(lines) - size + 1, size)
            ][: count_sentences(clients) // size]
            turns: Dict[str, List[Turn]] = {service.name: [] for service in services}
            for _ in range(args.rounds):
                for service in services:
                    turn = take_turn(service, texts, size, clients, args.languages)
                    turns[service.name].append(turn)
                    client_cpu.append(turn.client_cpu)
            for name, values in turns.items():
                base = turns[LIBRETRANSLATE]
                print_lines(format_row(kind, clients, name, values, base))
                sys.stdout.flush()
                if size == 1:
                    translations[name] = [
                        json.loads(answer.body)["translatedText"]
                        for answer in values[0].answers
                    ]
    expected = translations.pop(LIBRETRANSLATE)
    for name, actual in translations.items():
        equal = sum(map(str.__eq__, actual, expected))
        print_lines(
            f"{name}: {equal} of {len(expected)} translations are those of "
            f"{LIBRETRANSLATE}"
        )
    print_lines(f"clients: at most {max(client_cpu):.2f} ms of CPU time per sentence")


def measure_alone(args: argparse.Namespace, exported: str, lines: List[str]) -> None:
    """Print how many sentences per second CTranslate2 translates without a service."""
    hp = hparams.load(args.logdir)
    for clients in args.clients:
        sentences_sent = lines[: count_sentences(clients)]
        rates = []
        with FastTranslator(exported, hp) as translator:
            for _ in range(args.rounds):
                begin = time.perf_counter()
                for i in range(0, len(sentences_sent), clients):
                    translator.translate(sentences_sent[i : i + clients])
                rates.append(len(sentences_sent) / (time.perf_counter() - begin))
        print_lines(
            f"CTranslate2 alone, {clients} at once: {statistics.median(rates):.1f} "
            "sentences/s"
        )


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser("libretranslate.py", __doc__)
    cli.add_logdir(parser)
    parser.add_argument(
        "--text", required=True, nargs="+", metavar="FILE", help="a sentence a line"
    )
    parser.add_argument(
        "--languages", nargs=2, default=["de", "en"], metavar="LANGUAGE"
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    cli.add_number(parser, "rounds", 3, "turns of each service")
    parser.add_argument(
        "--environment",
        metavar="DIR",
        default=os.path.join(ROOT, ".venv-libretranslate"),
        help="the environment of LibreTranslate; made if missing",
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Start the services, and measure them."""
    lines = read_sentences(args.text, args.languages[0])
    needed = count_sentences(max(args.clients))
    if len(lines) < needed:
        raise ValueError(
            f"--text: expected {needed:,} different sentences for {max(args.clients)} "
            f"clients, got {len(lines):,}"
        )
    script = os.path.join(ROOT, "scripts", "{}.py").format
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        exported = os.path.join(folder, "exported")
        command = [sys.executable, script("export"), "--format", "ctranslate2"]
        command += ["--logdir", args.logdir, "--out", exported]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        services = start_libretranslate(stack, args, folder, exported)
        command = [sys.executable, script("serve"), "--logdir", args.logdir]
        command += ["--port", "0", "--languages", *args.languages, *LENGTH_PENALTY]
        for name, flags in OURS.items():
            services.append(start(stack, name, [*command, *flags], {}))
        for service in services:  # the first requests take longer
            for size in KINDS.values():
                texts = [" ".join(lines[:size])] * 64
                take_turn(service, texts, size, 64, args.languages)
        measure(services, args, lines)
        measure_alone(args, exported, lines)


def main(argv=None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
