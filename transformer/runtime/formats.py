"""The format of folders that are written; newer ones are refused politely.

`hparams.json` and `corpus.json` say in which format their folder is, and which version
of this package wrote it. A folder without one was written before formats were numbered.
"""

import json
import re
from typing import Any, Dict

VERSION = "0.1.0"  # of this package, as in setup.py
# Of log directories and data folders. It rises when versions before cannot read them;
# CONTRIBUTING.md says what else belongs to a new one.
FOLDER_FORMAT = 1
STAMP = ("format", "version")


def stamped(content: Dict[str, Any]) -> Dict[str, Any]:
    """Return content with the format and the version that write it."""
    return {"format": FOLDER_FORMAT, "version": VERSION, **content}


def read_json(path: str, wanted: str) -> Dict[str, Any]:
    """Return the content of a JSON file that was written `stamped`, without its stamp.

    Args:
      path: the file.
      wanted: what it should hold, for messages.

    Raises:
      ValueError: it has no JSON, no object, or a format that this version cannot read.
    """
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}: found no JSON ({error}), wanted {wanted}"
            ) from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: found a {type(content).__name__}, wanted {wanted}")
    return unstamped(content, path)


def unstamped(content: Dict[str, Any], path: str) -> Dict[str, Any]:
    """Return content without its format and version.

    Args:
      content: of a file that may be older, or newer, than this version.
      path: the file, for the message.

    Raises:
      ValueError: it is of a format that this version does not know.
    """
    found, version = (content.get(name) for name in STAMP)
    if "format" in content and (
        type(found) is not int or not 0 < found <= FOLDER_FORMAT
    ):
        is_version = isinstance(version, str) and re.fullmatch(r"\d[\w.]{,20}", version)
        newer = (
            f"transformer-tf {version}" if is_version else "the version that made it"
        )
        raise ValueError(
            f"{path}: found format {found!r:.20}, wanted at most {FOLDER_FORMAT}, "
            f"which transformer-tf {VERSION} reads; install {newer} or newer"
        )
    return {name: value for name, value in content.items() if name not in STAMP}
