"""Say what to change in code of the TF1 tutorials so that it uses these blocks.

    python -m transformer.porting model.py modules.py
    python -m transformer.porting --diff model.py > ported.diff
    patch -p0 < ported.diff
    python -m transformer.porting --compare modules.py --with sasrec

The files are read, not run, and not changed. A modules.py that they import is read too,
where it is beside them: it tells which tutorial the code is from. --diff prints a patch
of imports, and of names that TensorFlow 2 does not have.

What is read tells some differences of the functions, not that there are none: before
switching, run --compare.

--compare RUNS a file: it imports the functions of a modules.py, builds each block of it
and of ours with the same variables, and prints how far they are apart. The status is 1
where a block differs by more than 1e-5, fails, or has variables of other names.
"""

import os
import sys
from typing import Dict, List

from transformer.porting import hidden, patch
from transformer.porting.calls import GIVE, blocks, imports, paths_of
from transformer.porting.reading import Script, read
from transformer.porting.report import report
from transformer.porting.sources import SOURCES, Match, classify
from transformer.runtime import cli

PROGRAM = "python -m transformer.porting"
OURS_DIFFER = (
    "some of its functions differ and stay yours; the report, without --diff, has the "
    "imports to write"
)


def parser():
    made = cli.make_parser(PROGRAM, __doc__)
    made.add_argument("files", nargs="*", metavar="FILE", help="files of Python")
    made.add_argument("--diff", action="store_true", help="print a patch instead")
    made.add_argument(
        "--compare",
        metavar="MODULES",
        help="run this file, and compare its blocks with ours",
    )
    made.add_argument(
        "--with",
        dest="ours",
        metavar="NAME",
        help=f"what to compare it with: {', '.join(SOURCES)}, or a file of Python "
        "[what it is told to be]",
    )
    return made


def run(args):
    if args.ours and not args.compare:
        raise ValueError("--with: found no --compare, wanted both")
    if args.compare:
        if args.files or args.diff:
            raise ValueError("--compare: found other arguments, wanted only --with")
        return _compare(args)
    if not args.files:
        raise ValueError("found no files, wanted those that are to be ported")
    scripts = [read(path) for path in args.files]
    matches = _matches(scripts)
    if args.diff:
        _write_patch(scripts, matches)
        return 0
    sys.stdout.write("\n".join(report(script, matches) for script in scripts))
    for line in _comparisons(matches):
        sys.stdout.write(line + "\n")
    known = any(os.path.abspath(script.path) in matches for script in scripts)
    return 0 if known or any(blocks(script, matches) for script in scripts) else 1


def _matches(scripts: List[Script]) -> Dict[str, Match]:
    """Return absolute path → Match: of the files given, and of those they import."""
    found = {os.path.abspath(script.path): classify(script) for script in scripts}
    for script in scripts:
        for _, module, level in imports(script):
            for path in paths_of(script, module, level):
                if path in found:
                    break
                if os.path.isfile(path):
                    found[path] = classify(read(path))
                    break
    return {path: match for path, match in found.items() if match}


def _comparisons(matches: Dict[str, Match]) -> List[str]:
    """Return the commands that compare the functions of files with ours."""
    package = hidden.OTHER_NAME if hidden.hider(os.getcwd()) else "transformer"
    return [
        f"before switching: python -m {package}.porting --compare "
        f"{os.path.relpath(path)} --with {match.source}"
        for path, match in matches.items()
        if SOURCES[match.source].facts and match.names
    ]


def _write_patch(scripts, matches):
    """Write a patch of the files, each in its own encoding."""
    sys.stdout.flush()
    warn = cli.warner(PROGRAM)
    for script in scripts:
        found = blocks(script, matches)
        for each in found:
            if not each.certain:
                why = GIVE if each.match is None else OURS_DIFFER
                warn(f"{script.path}: {each.module}: not in the patch: {why}")
        used = [id(each.match) for each in found if each.match and each.certain]
        for line in _comparisons(
            {path: match for path, match in matches.items() if id(match) in used}
        ):
            warn(line)
        text = patch.unified(script, patch.edits(script, found))
        sys.stdout.buffer.write(text.encode(script.encoding))
    sys.stdout.flush()


def _compare(args):
    """Compare the blocks of two files; return 1 where they differ."""
    original = read(args.compare)
    ours, match = args.ours, classify(original)
    if ours is None:
        if match is None:
            raise ValueError(f"{args.compare}: found no blocks, wanted --with NAME")
        ours = match.source
    if ours not in SOURCES and not os.path.isfile(ours):
        raise ValueError(f"--with: {cli.unknown('source', ours, list(SOURCES))}")
    from transformer.porting import compare

    lines, status = compare.compare(original, ours, args.verbose)
    sys.stdout.write("".join(line + "\n" for line in lines))
    return status


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
