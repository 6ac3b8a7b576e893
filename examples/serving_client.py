"""Translate lines with TensorFlow Serving through its REST interface.

    python examples/serving_client.py --url http://localhost:8501/v1/models/m < test.de

The model is an export by `export --format savedmodel` with tensorflow-text. This client
needs only Python's standard library.
"""

import argparse
import itertools
import json
import sys
import urllib.error
import urllib.request
from typing import Iterator, List, Optional, Sequence, Tuple

LINES_PER_REQUEST = 64
TIMEOUT = 60  # seconds until an answer must arrive
SIGNATURE = "translate"


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--url", required=True, help="URL of the model: http://HOST:8501/v1/models/NAME"
    )
    parser.add_argument("--scores", action="store_true", help="also write the scores")
    return parser


def translate(url: str, lines: Sequence[str]) -> List[Tuple[str, float]]:
    """Translate lines with one request; return the (text, score) of each.

    Args:
      url: the URL of the model.
      lines: the lines for one request.

    Raises:
      ValueError: the server rejected the lines; the message has its reason.
      OSError: the server does not answer.
    """
    body = {"signature_name": SIGNATURE, "instances": list(lines)}
    request = urllib.request.Request(
        url + ":predict",
        json.dumps(body).encode("utf-8"),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            rows = json.loads(response.read().decode("utf-8"))["predictions"]
    except urllib.error.HTTPError as error:
        reason = error.read().decode("utf-8", "replace")
        raise ValueError(f"{url}: {error.code} {reason[:500]}") from error
    return [(row["text"], row["score"]) for row in rows]


def split_into_chunks(lines: Iterator[str]) -> Iterator[List[str]]:
    """Split lines into chunks, one for each request."""
    while True:
        chunk = list(itertools.islice(lines, LINES_PER_REQUEST))
        if not chunk:
            return
        yield chunk


def main(argv: Optional[List[str]] = None) -> None:
    """Translate standard input."""
    args = make_parser().parse_args(argv)
    try:
        for chunk in split_into_chunks(line.rstrip("\n") for line in sys.stdin):
            for text, score in translate(args.url.rstrip("/"), chunk):
                sys.stdout.write(
                    f"{text} ||| {score:.4f}\n" if args.scores else text + "\n"
                )
    except (OSError, ValueError) as error:
        sys.exit(f"serving_client.py: {args.url}: {error}")


if __name__ == "__main__":
    main()
