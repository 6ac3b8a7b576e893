"""Write the changes that are certain as a unified patch."""

import difflib
import os
import re
from typing import List

from transformer.porting import hidden, tensorflow2
from transformer.porting.calls import Blocks, rewritten
from transformer.porting.reading import Script, end_of_statement
from transformer.porting.tensorflow2 import Edit


def edits(script: Script, found: List[Blocks]) -> List[Edit]:
    """Return the changes of a file: its imports of blocks, and for TensorFlow 2.

    Args:
      script: what `reading.read` returned.
      found: its imports of blocks.
    """
    changes = tensorflow2.edits(script)
    for each in found:
        lines = rewritten(script, each)
        number = each.node.lineno
        place = re.match(r"(\s*)(?=from\s|import\s)", script.lines[number - 1])
        sure = each.certain and number not in script.changed
        if lines is None or not place or not sure:
            continue
        lines = hidden.named(script, lines)
        gives_tf = each.star and len(lines) == 1 and each.source != "bojone_keras"
        if gives_tf and not tensorflow2.imports_tensorflow(script):
            lines = lines + ["tf.disable_v2_behavior()"]
        end = end_of_statement(script, number)
        text = ("\n" + place.group()).join(lines)
        changes.append(Edit((number, place.end()), end, text))
    return sorted(changes)


def applied(script: Script, changes: List[Edit]) -> List[str]:
    """Return the lines of a file after changes, which do not overlap."""
    lines = list(script.lines)
    for (line, begin), (last, end), text in sorted(changes, reverse=True):
        whole = lines[line - 1][:begin] + text + lines[last - 1][end:]
        ends = "\r\n" if lines[line - 1].endswith("\r\n") else "\n"
        lines[line - 1 : last] = [whole.replace("\r\n", "\n").replace("\n", ends)]
    return re.findall(r"[^\n]*\n|[^\n]+", "".join(lines))


def unified(script: Script, changes: List[Edit]) -> str:
    """Return changes of a file as a patch for `patch -p0`; "" where there are none."""
    path = script.path
    if os.path.isabs(path) and not os.path.relpath(path).startswith(os.pardir):
        path = os.path.relpath(path)
    path = path.replace(os.sep, "/")
    made = difflib.unified_diff(script.lines, applied(script, changes), path, path)
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
        for line in made
    )
