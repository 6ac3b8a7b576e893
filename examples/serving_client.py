"""Translate lines with TensorFlow Serving through its REST interface.

    python examples/serving_client.py --url http://localhost:8501/v1/models/m < test.de

The model is an export by `export --format savedmodel` with tensorflow-text. This client
only needs Python's standard library.
"""

import argparse
import itertools
import json
import sys
import urllib.error
import urllib.request
from typing import Iterator, List, Optional, Sequence, Tuple

AT_ONCE = 64  # lines in a request
SECONDS = 60  # within which an answer must arrive
SIGNATURE = "translate"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument(
        "--url", required=True, help="URL of the model: http://HOST:8501/v1/models/NAME"
    )
    made.add_argument("--scores", action="store_true", help="also write the scores")
    return made


def translate(url: str, lines: Sequence[str]) -> List[Tuple[str, float]]:
    """Return (text, score) for the translation of each line.

    Args:
      url: the URL of the model.
      lines: the lines for one request.

    Raises:
      ValueError: the server refused the lines; the message has its reason.
      OSError: there is no server.
    """
    body = {"signature_name": SIGNATURE, "instances": list(lines)}
    request = urllib.request.Request(
        url + ":predict",
        json.dumps(body).encode("utf-8"),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            rows = json.loads(answer.read().decode("utf-8"))["predictions"]
    except urllib.error.HTTPError as error:
        reason = error.read().decode("utf-8", "replace")
        raise ValueError(f"{url}: {error.code} {reason[:500]}") from error
    return [(row["text"], row["score"]) for row in rows]


def chunks(lines: Iterator[str]) -> Iterator[List[str]]:
    """Yield the lines in chunks for one request each."""
    while True:
        chunk = list(itertools.islice(lines, AT_ONCE))
        if not chunk:
            return
        yield chunk


def main(argv: Optional[List[str]] = None) -> None:
    """Translate standard input."""
    args = parser().parse_args(argv)
    try:
        for chunk in chunks(line.rstrip("\n") for line in sys.stdin):
            for text, score in translate(args.url.rstrip("/"), chunk):
                sys.stdout.write(
                    f"{text} ||| {score:.4f}\n" if args.scores else text + "\n"
                )
    except (OSError, ValueError) as error:
        sys.exit(f"serving_client.py: {args.url}: {error}")


if __name__ == "__main__":
    main()
