#!/usr/bin/env bash
# translate-toolkit 3.20.4: tmxfile gives the text of a segment together with what stands inside
# <bpt> and <ept>: the markup of the document that was translated.
# Guessed: the text alone, "A red ball.". Seen: "A <b>red</b> ball."
# Met by: whoever makes a corpus of a translation memory: models learn to write markup.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet translate-toolkit==3.20.4 lxml==6.1.3

env/bin/python - <<'PYTHON'
import io

from translate.storage import tmx

MEMORY = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="en" datatype="html" segtype="sentence" adminlang="en"
 o-tmf="none" creationtool="none" creationtoolversion="1"/><body>
<tu><tuv xml:lang="de"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>roter<ept i="1">&lt;/b&gt;</ept>
 Ball.</seg></tuv>
<tuv xml:lang="en"><seg>A <bpt i="1">&lt;b&gt;</bpt>red<ept i="1">&lt;/b&gt;</ept>
 ball.</seg></tuv></tu></body></tmx>"""
[unit] = tmx.tmxfile(io.BytesIO(MEMORY.encode()), "en", "de").units
pair = [" ".join(str(side).split()) for side in (unit.source, unit.target)]
print(pair)
assert pair == ["A <b>red</b> ball.", "Ein <b>roter</b> Ball."], pair
PYTHON
