"""Measure the model in the page beside other ways to run it in a browser.

    npm install --prefix engines onnxruntime-web@1.30.0 @tensorflow/tfjs-core@4.22.0 \\
        @tensorflow/tfjs-backend-wasm@4.22.0
    python tools/bench/page/measure_page.py --logdir logs/multi30k --npm engines

Each way is a page that is opened from a folder, in a Chromium of its own, with the same
tokenizer and the same search (viewer/page/), one thread, and the weights in the page.
The pages translate the same sentences in turn; so do TensorFlow's Translator and, if it
is installed, CTranslate2. A time is the fastest of --rounds for each sentence; the
median over the sentences is printed. With float32 weights, all must find the ids of
TensorFlow's n best translations.
"""

import argparse
import contextlib
import gzip
import json
import os
import re
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
sys.path[:0] = [ROOT, os.path.join(ROOT, "tests")]

from browser import Browser  # noqa: E402

from transformer import hparams  # noqa: E402
from transformer.commands import cli  # noqa: E402
from transformer.exports.weights import INT8, TYPES, export_weights  # noqa: E402
from transformer.logdir import manifests  # noqa: E402
from transformer.text.data_folder import load_text  # noqa: E402
from transformer.viewer import page_files  # noqa: E402
from transformer.viewer.model_page import encode_base64  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
OURS, ONNX, TFJS = "own kernels", "onnxruntime-web", "TensorFlow.js"
TENSORFLOW, CTRANSLATE2 = "TensorFlow Translator", "CTranslate2"
FLOAT32 = TYPES[-1]
NUM_WORDS = range(11, 14)  # of a sentence
SETTLE = 10  # seconds after which memory is read: the browser collects garbage
PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<script type="application/json" id="data">%s</script>
<script>
let data = JSON.parse(document.getElementById("data").textContent);
document.getElementById("data").textContent = "";
let { engine, line, ...model } = data;
const worker = new Worker(URL.createObjectURL(new Blob([engine])));
const call = (...message) => new Promise((resolve, reject) => {
  worker.onmessage = ({ data: { result, error } }) => {
    (error ? reject(error) : resolve(result));
  };
  worker.onerror = ({ message: text }) => reject(text);
  worker.postMessage(message);
});
const cold = call("start", model).then(() => call("translate", line))
  .then((result) => ({ ...result, milliseconds: performance.now() }));
data = null; engine = null; model = null; // so that their memory is freed
</script>"""


class Engine(NamedTuple):
    """A way to run the model in a page."""

    system: str
    weights: str  # their type
    model: str  # the script that makes the model
    libraries: Sequence[str]  # files of npm packages
    wasm: str  # likewise, or a file of viewer/page/

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.system}, {self.weights}"


def list_engines() -> List[Engine]:
    """List the engines: ours, and those of others."""
    engines = [
        Engine(OURS, weights, "our_model.js", (), page_files.KERNELS)
        for weights in (INT8, FLOAT32)
    ]
    folder = "onnxruntime-web/dist/"
    libraries = (folder + "ort.wasm.bundle.min.mjs",)
    wasm = folder + "ort-wasm-simd-threaded.wasm"
    engines.append(Engine(ONNX, FLOAT32, "onnx_model.js", libraries, wasm))
    folder = "@tensorflow/tfjs-backend-wasm/dist/"
    libraries = (
        "@tensorflow/tfjs-core/dist/tf-core.min.js",
        folder + "tf-backend-wasm.min.js",
    )
    wasm = folder + "tfjs-backend-wasm-simd.wasm"
    engines.append(Engine(TFJS, FLOAT32, "tfjs_model.js", libraries, wasm))
    return engines


class Figures(NamedTuple):
    """What is measured of an engine or a translator."""

    times: Dict[str, List[float]]  # line → milliseconds
    cold: List[float]  # milliseconds from opening a page to its first translation
    memory: List[float]  # of the page, MB
    code: int = 0  # bytes of code, compressed
    page: int = 0  # bytes of the page

    def median_time(self) -> float:
        """The median over the lines of the fastest round."""
        return statistics.median(min(times) for times in self.times.values())


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser("measure_page.py", __doc__)
    parser.add_argument("--logdir", required=True, help="a trained model")
    parser.add_argument("--npm", required=True, help="where npm installed the others")
    cli.add_number(parser, "lines", 12, "sentences of the dev split, of 11 to 13 words")
    cli.add_number(parser, "rounds", 5, "times that each is translated")
    cli.add_number(parser, "cold", 3, "times that each page is opened")
    return parser


# The pages


def make_script(engine: Engine) -> str:
    """Return the script of the worker."""
    scripts = {name: page_files.read_file(name) for name in page_files.TRANSLATOR}
    # The same search, but it waits for the model: onnxruntime-web returns promises.
    search = scripts["search.js"].replace("model.step(", "await model.step(")
    functions = re.compile(r"^(?=function (search|beam|greedy)\()", re.M)
    scripts["search.js"] = functions.sub("async ", search)
    for name in (engine.model, "harness.js"):
        scripts[name] = read_bytes(HERE, name).decode("utf-8")
    return "".join(scripts.values())


def write_page(path: str, engine: Engine, exported: bytes, npm: str, line: str):
    """Write a page with a model in it; return its Figures, which are to be filled.

    Args:
      path: where.
      engine: what runs the model.
      exported: the model, safetensors.
      npm: the folder of the npm packages.
      line: the first one to be translated.
    """
    packages = os.path.join(npm, "node_modules")
    folder = page_files.FOLDER if engine.system == OURS else packages
    script = make_script(engine)
    library = b"\n".join(read_bytes(packages, name) for name in engine.libraries)
    wasm = read_bytes(folder, engine.wasm)
    graphs = {}
    if engine.system == ONNX:
        import onnx_graphs

        graphs = {
            "encoder": onnx_graphs.make_encoder(exported),
            "step": onnx_graphs.make_step(exported),
        }
    data = {
        "engine": script,
        "line": line,
        "library": library.decode("utf-8"),
        "wasm": encode_base64(wasm),
        "graphs": {name: encode_base64(graph) for name, graph in graphs.items()},
        "weights": encode_base64(exported),
    }
    with open(path, "w", encoding="utf-8") as file:
        file.write(PAGE % page_files.escape_json(data))
    code = [script.encode("utf-8"), library, wasm, *graphs.values()]
    size = sum(len(gzip.compress(part)) for part in code)
    return Figures({}, [], [], size, os.path.getsize(path))


def read_bytes(*names: str) -> bytes:
    """Read a file."""
    with open(os.path.join(*names), "rb") as file:
        return file.read()


# The measurements


def measure_cold(path: str, figures: Figures) -> None:
    """Open a page in a new browser, and let it translate once."""
    with Browser() as browser:
        browser.open("file://" + path)
        figures.cold.append(browser.run("cold")["milliseconds"])
        time.sleep(SETTLE)
        figures.memory.append(private_memory(browser))


def private_memory(browser: Browser) -> float:
    """Return the private memory of a page, in MB.

    A browser has several processes for pages: that of the open one is the largest.
    """
    processes = browser.call("SystemInfo.getProcessInfo")["processInfo"]
    sizes = []
    for process in processes:
        if process["type"] == "renderer":
            text = read_bytes(f"/proc/{process['id']}/smaps_rollup").decode("ascii")
            private = re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB", text, re.M)
            sizes.append(sum(map(int, private)) * 1024 / 1e6)
    return max(sizes)


def translate_in(browser: Browser) -> Callable[[str], Dict[str, Any]]:
    """Return a function that translates a line in a page that is open."""
    return lambda line: browser.run(f'call("translate", {json.dumps(line)})')


def open_translators(logdir: str, hp, exits) -> Dict[str, Callable]:
    """Open the translators that need Python: name → function, as of `translate_in`."""
    from transformer.translator import Translator

    translator = exits.enter_context(Translator(logdir, n_best=hp.num_hypotheses))
    target = translator.vocabularies.target

    def search(line):
        start = time.perf_counter()
        [source] = translator.encode([line])
        hypotheses = translator.search_line(source)
        seconds = time.perf_counter() - start
        ids = list(map(target.strip_special, hypotheses.ids[0]))
        return {"ids": ids, "milliseconds": 1000 * seconds}

    functions = {TENSORFLOW: search}
    with contextlib.suppress(ImportError, ValueError):
        other = exits.enter_context(Translator(logdir, engine="ctranslate2"))

        def translate(line):
            start = time.perf_counter()
            other.translate([line])
            return {"ids": None, "milliseconds": 1000 * (time.perf_counter() - start)}

        functions[CTRANSLATE2] = translate
    return functions


def choose_lines(data: str, count: int) -> List[str]:
    """Choose sentences of the dev split."""
    sources, _ = load_text(data, "dev")
    lines = [line for line in dict.fromkeys(sources) if len(line.split()) in NUM_WORDS]
    return lines[:: max(1, len(lines) // count)][:count]


def run(args: argparse.Namespace) -> None:
    """Measure, and print the table."""
    hp = hparams.load(args.logdir)
    first, *lines = choose_lines(hp.data, args.lines + 1)
    cli.start_tensorflow(args.verbose)
    [checkpoint, *_] = manifests.list_candidates(args.logdir)
    exported = {
        weights: export_weights(hp, checkpoint, weights) for weights in (INT8, FLOAT32)
    }
    figures, functions = {}, {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as exits:
        paths = {}
        for engine in list_engines():
            path = os.path.join(folder, f"{len(paths)}.html")
            weights = exported[engine.weights]
            figures[engine.name] = write_page(path, engine, weights, args.npm, first)
            paths[engine.name] = path
        for _ in range(args.cold):
            for name, path in paths.items():
                measure_cold(path, figures[name])
        for name, path in paths.items():
            browser = exits.enter_context(Browser())
            browser.open("file://" + path)
            browser.run("cold")
            functions[name] = translate_in(browser)
        use_one_core()
        functions.update(open_translators(args.logdir, hp, exits))
        translate_all(functions, lines, args.rounds, figures)
    print(format_table(figures))


def translate_all(functions, lines, rounds: int, figures: Dict[str, Figures]) -> None:
    """Translate lines in turn, and compare the ids of the engines with float32."""
    for name, function in functions.items():
        figures.setdefault(name, Figures({}, [], []))
        for line in lines[:2]:
            function(line)  # to warm up
    for line in lines * rounds:
        results = {name: function(line) for name, function in functions.items()}
        for name, result in results.items():
            figures[name].times.setdefault(line, []).append(result["milliseconds"])
            is_exact = FLOAT32 in name
            if is_exact and result["ids"] != results[TENSORFLOW]["ids"]:
                raise ValueError(
                    f"{name}: expected the ids of TensorFlow for {line!r}, "
                    f"{results[TENSORFLOW]['ids']}, got {result['ids']}"
                )


def use_one_core() -> None:
    """Confine this process, but not the browsers, to a core."""
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])


def format_table(figures: Dict[str, Figures]) -> str:
    """Return the figures as a Markdown table."""
    onnx = figures[f"{ONNX}, {FLOAT32}"]
    rows = [
        ["", "a sentence, ms", "to " + ONNX, "first, cold, ms", "to " + ONNX]
        + ["page, MB", "code, KB gzip", "memory of the page, MB"],
        ["---"] * 8,
    ]
    for name, (_, cold, memory, code, page) in figures.items():
        milliseconds = figures[name].median_time()
        row = [name, f"{milliseconds:.1f}", f"{milliseconds / onnx.median_time():.2f}"]
        if cold:
            seconds = statistics.median(cold)
            row += [f"{seconds:.0f}", f"{seconds / statistics.median(onnx.cold):.2f}"]
            row += [f"{page / 1e6:.1f}", f"{code / 1e3:.1f}"]
            row += [f"{statistics.median(memory):.0f}"]
        rows.append(row + [""] * (8 - len(row)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    cli.main(parser(), run)
