"""docs/wmt14.md: sacreBLEU's commands, on a stand-in for its own test set.

The other commands are run by test_commands.
"""

import os
import shlex
import subprocess
import sys

import corpora
from documents import blocks, read

PAIRS = [("Ein Hund läuft.", "A dog runs."), ("Zwei Hunde.", "Two dogs.")] * 3


def test_sacrebleu_has_the_test_set_and_scores_translations(tmp_path):
    commands = [
        line
        for _, block in blocks(read("docs/wmt14.md"))
        for line in block.splitlines()
        if line.startswith("sacrebleu ")
    ]
    assert len(commands) == 2
    cache = tmp_path / "cache" / "wmt14" / "full"
    cache.mkdir(parents=True)
    sources, targets = zip(*PAIRS)
    fields = {"src": sources, "ref": targets}
    for field in ("src", "ref", "docid", "genre", "origlang"):
        lines = fields.get(field, ["x"] * len(PAIRS))
        corpora.write_lines(cache / f"wmt14_full.de-en.{field}", lines)
    corpora.write_lines(tmp_path / "newstest2014.out", targets)
    for command in commands:
        python = shlex.quote(sys.executable) + " -m "
        said = subprocess.run(
            ["bash", "-euc", python + command],
            cwd=str(tmp_path),
            env=dict(os.environ, SACREBLEU=str(tmp_path / "cache")),
            stdout=subprocess.PIPE,
            universal_newlines=True,
            check=True,
        ).stdout
    assert corpora.read_lines(tmp_path / "newstest2014.de") == list(sources)
    assert '"score": 100.0' in said
