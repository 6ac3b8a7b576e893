"""A large file → shards of lines, which several processes translate, also on machines.

The processes share a folder and nothing else:

    plan.json               the input, its shards, and on what the translations depend
    shard-000017.txt        the translations of shard 17: complete, or not there
    shard-000017.txt.claim  a folder: a process is at work on it

A claim holds the draft of the file, whose name says who writes it, such as
4711@node17-1a2b3c4d. A live process touches its draft. The claim of a dead one is taken
over: at once on its machine, elsewhere when the draft has not changed for a while.
Clocks are not compared. If two processes write the same shard nevertheless, both write
the same bytes, and each renames its own draft.

    plan = open_plan("shards", "big.de", 20000, {"search": "beam", …})
    translate_missing(plan, translate)  # in each process
    join(plan, sys.stdout.buffer)       # in one of them, afterwards
"""

import contextlib
import errno
import hashlib
import io
import itertools
import json
import os
import shutil
import socket
import threading
import time
from typing import (
    IO,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from transformer.runtime import files
from transformer.runtime.errors import (
    CorpusError,
    FileNotText,
    PlanDiffers,
    SettingsError,
    ShardsFailed,
    ShardsMissing,
    TransformerError,
)
from transformer.runtime.progress import format_count
from transformer.text.lines import HEAD, find_signature, find_wide_encoding

PLAN = "plan.json"
CLAIM = ".claim"
MAX_SHARDS = 100_000  # files in one folder
BEAT = 15.0  # seconds between two touches of a draft
# Seconds without a touch after which the process of another machine counts as dead; a
# network file system may hide a change for 60.
SILENCE = 150.0
POLL = 1.0  # seconds between two looks at the shards of other processes
MAX_NAMED = 3  # shards or differences in a message

# A function of the lines of a shard as bytes, the number of the first one, counted from
# 1, and a file, to which it writes a row for each line.
Translate = Callable[[Sequence[bytes], int, IO[bytes]], None]


class Shard(NamedTuple):
    """A stretch of the lines of a file.

    Attributes:
      number: counted from 0.
      start, size: where its bytes are in the file.
      first_line: counted from 1.
      num_lines: the number of its lines.
      sha256: the checksum of its bytes, in hexadecimal digits.
    """

    number: int
    start: int
    size: int
    first_line: int
    num_lines: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of the file with its translations."""
        return f"shard-{self.number:06d}.txt"

    def __str__(self) -> str:
        last_line = self.first_line + self.num_lines - 1
        return f"shard {self.number} (lines {self.first_line:,} to {last_line:,})"


def describe_shards(shards: Sequence[Shard]) -> str:
    """Name the first shards, and count the rest."""
    text = ", ".join(map(str, shards[:MAX_NAMED]))
    rest = len(shards) - MAX_NAMED
    return f"{text} and {rest:,} more" if rest > 0 else text


# --- A folder that several processes write --------------------------------------------


def describe_process() -> str:
    """Return the name of this process among those of all machines: 4711@node17-….

    It ends with a hash of the machine's start and of the container.
    """
    places = []
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        with contextlib.suppress(OSError):  # only Linux has them
            if os.path.islink(path):
                places.append(os.readlink(path))
            else:
                with open(path, encoding="ascii") as file:
                    places.append(file.read())
    return f"{os.getpid()}@{socket.gethostname()}-{files.short_hash(repr(places))}"


def is_running(process: int) -> bool:
    """Return whether this machine has a process with this id."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # of another user
    return True


class SharedFolder:
    """A folder whose files are written once, by one of several processes.

    Args:
      path: the folder, which is created.
    """

    def __init__(self, path: str):
        files.refuse_unwritable(path, "shards")
        os.makedirs(path, exist_ok=True)
        self.path = path
        self._owner = describe_process()
        # Claim → (its owner, the time of its last change), and since when this is so.
        self._beats: Dict[str, Tuple[Tuple[str, int], float]] = {}

    def join(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.path, name)

    def write(self, name: str, write: Callable[[IO[bytes]], None]) -> bool:
        """Write a file, unless another process is writing it.

        Args:
          name: the file.
          write: writes its content to a binary file.

        Returns:
          Whether the file exists now.

        Raises:
          OSError: the file could not be written; it does not exist.
        """
        path = self.join(name)
        with files.name_file_in_errors(path), self._claim(path + CLAIM) as draft:
            if draft and not os.path.exists(path):
                try:
                    with open(draft, "wb") as file:
                        write(file)
                        file.flush()
                        os.fsync(file.fileno())
                    os.replace(draft, path)
                except FileNotFoundError as error:
                    if error.filename != draft:  # else the claim was taken over
                        raise
            return os.path.exists(path)

    def find_owner(self, name: str) -> str:
        """Return which process writes a file, "" if none does."""
        with contextlib.suppress(OSError):
            return "".join(os.listdir(self.join(name) + CLAIM)[:1])
        return ""

    def sweep(self) -> None:
        """Remove all claims; the files that they are for exist."""
        for name in os.listdir(self.path):
            if CLAIM in name:
                files.remove_tree(self.join(name))

    @contextlib.contextmanager
    def _claim(self, claim: str) -> Iterator[Optional[str]]:
        """Hold a claim; yield the path of the draft, None if another process has it."""
        if not self._take(claim):
            yield None
            return
        draft = os.path.join(claim, self._owner)
        end = threading.Event()
        files.UNFINISHED.add(claim)
        try:
            threading.Thread(target=_touch, args=(draft, end), daemon=True).start()
            yield draft
        finally:
            end.set()
            with contextlib.suppress(OSError):
                os.remove(draft)
            with contextlib.suppress(OSError):  # another process has taken it over
                os.rmdir(claim)
            files.UNFINISHED.discard(claim)

    def _take(self, claim: str) -> bool:
        """Take a claim, also that of a dead process; return whether this one has it."""
        if os.path.isdir(claim) and not self._remove_abandoned(claim):
            return False
        begun = f"{claim}-{self._owner}"
        try:
            files.remove_tree(begun)
            os.mkdir(begun)
            open(os.path.join(begun, self._owner), "wb").close()
            os.rename(begun, claim)  # fails if there is one that is not empty
        except OSError as error:
            files.remove_tree(begun)
            # Another process has it; or the file exists now, and claims were removed.
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                return False
            raise
        return True

    def _remove_abandoned(self, claim: str) -> bool:
        """Remove a claim if its process has died; return whether it is removed."""
        grave = f"{claim}-{self._owner}"
        with contextlib.suppress(OSError):  # another process has ended, or was faster
            owners = os.listdir(claim)
            if self._is_abandoned(claim, owners):
                os.rename(claim, grave)  # of several processes that see this, one can
                if os.listdir(grave) == owners:
                    files.remove_tree(grave)
                    return True
                os.rename(grave, claim)  # a new one, of a process that was faster
        return False

    def _is_abandoned(self, claim: str, owners: List[str]) -> bool:
        """Return whether the process that has a claim has died, as far as is known."""
        if not owners:  # it ended just before the claim was removed
            return True
        owner = owners[0]
        process, _, machine = owner.partition("@")
        if process.isdigit() and machine == self._owner.partition("@")[2]:
            if owner == self._owner:  # the id was used again
                return claim not in files.UNFINISHED
            if not is_running(int(process)):
                return True
        handle = os.open(os.path.join(claim, owner), os.O_RDONLY)
        try:  # a network file system looks again when a file is opened
            beat = owner, os.fstat(handle).st_mtime_ns
        finally:
            os.close(handle)
        last, since = self._beats.get(claim, (None, 0.0))
        if beat != last:
            self._beats[claim] = beat, time.monotonic()
            return False
        return time.monotonic() - since > SILENCE


def _touch(path: str, end: threading.Event) -> None:
    """Touch a file every BEAT seconds, until an event is set."""
    while not end.wait(BEAT):
        with contextlib.suppress(OSError):
            os.utime(path)


# --- The plan -------------------------------------------------------------------------


class Plan(NamedTuple):
    """Which shards a file has, and on what their translations depend.

    Attributes:
      folder: where the translations are.
      input: the path of the file.
      identity: name → value of all on which the translations depend.
      shards: in the order of the lines.
    """

    folder: SharedFolder
    input: str
    identity: Dict[str, Any]
    shards: List[Shard]

    def list_missing(self) -> List[Shard]:
        """List the shards that no process has finished."""
        names = set(os.listdir(self.folder.path))
        return [shard for shard in self.shards if shard.file_name not in names]

    def is_finished(self) -> bool:
        """Return whether no shard is missing; then no claims are left, either."""
        if self.list_missing():
            return False
        self.folder.sweep()
        return True

    def read_source(self, shard: Shard) -> List[bytes]:
        """Read the lines of a shard.

        Raises:
          CorpusError: they are not those that were planned.
        """
        with files.name_file_in_errors(self.input), open(self.input, "rb") as file:
            file.seek(shard.start)
            content = file.read(shard.size)
        if hashlib.sha256(content).hexdigest() != shard.sha256:
            raise CorpusError(
                f"{self.input}: expected the lines that were planned, got others; "
                "restore the file"
            )
        return list(io.BytesIO(content))


def cut_file(path: str, shard_lines: int) -> Tuple[str, List[Shard]]:
    r"""Cut a file into shards; return (its SHA-256, the shards).

    Only "\n" ends a line.

    Args:
      path: a plain file in any encoding that is like ASCII.
      shard_lines: the number of lines in each shard but the last.

    Raises:
      FileError: it is a pipe or a folder.
      FileNotText: it is compressed, or text in UTF-16 or UTF-32.
      SettingsError: there would be too many shards.
    """
    digest = hashlib.sha256()
    shards: List[Shard] = []
    start, first_line = 0, 1
    with files.open_file(path) as file:
        head = file.read(HEAD)
        kind = find_signature(head) or find_wide_encoding(head)
        if kind:
            raise FileNotText(f"{path}: expected text in UTF-8, got {kind}", path, kind)
        file.seek(0)
        while True:
            lines = list(itertools.islice(file, shard_lines))
            if not lines:
                return digest.hexdigest(), shards
            if len(shards) == MAX_SHARDS:
                raise SettingsError(
                    f"{path}: expected at most {MAX_SHARDS:,} shards, got more with "
                    f"{shard_lines:,} lines each; put more lines into a shard"
                )
            content = b"".join(lines)
            digest.update(content)
            checksum = hashlib.sha256(content).hexdigest()
            shards.append(
                Shard(
                    len(shards), start, len(content), first_line, len(lines), checksum
                )
            )
            start += len(content)
            first_line += len(lines)


def open_plan(
    path: str,
    source: str,
    shard_lines: int,
    identity: Dict[str, Any],
    prepare: Callable[[], None] = lambda: None,
) -> Plan:
    """Open the plan of a folder, or make it; one of several processes makes it.

    Args:
      path: the folder.
      source: the file to translate.
      shard_lines: as in `cut_file`.
      identity: name → value, fit for JSON, of all on which the translations depend
        beside the file.
      prepare: called before a new plan is written, by that process only.

    Raises:
      PlanDiffers: the folder has another plan.
      FileError, FileNotText, SettingsError: as in `cut_file`.
    """
    files.refuse_irregular(source)
    folder = SharedFolder(path)

    def identify(size, checksum):
        return {
            "input size": size,
            "input checksum": checksum,
            "shard_lines": shard_lines,
            **identity,
        }

    def write(file):
        modified = os.stat(source).st_mtime_ns
        checksum, shards = cut_file(source, shard_lines)
        prepare()
        size = sum(shard.size for shard in shards)
        content = {
            "input": os.path.abspath(source),
            "modified": modified,
            "identity": identify(size, checksum),
            "shards": [shard._asdict() for shard in shards],
        }
        text = json.dumps(files.add_stamp(content), indent=1)
        file.write(text.encode("utf-8") + b"\n")

    while not (os.path.exists(folder.join(PLAN)) or folder.write(PLAN, write)):
        time.sleep(POLL)
    plan, modified = _read_plan(folder)
    size, checksum = os.path.getsize(source), plan.identity["input checksum"]
    state = os.path.abspath(source), os.stat(source).st_mtime_ns
    if size != plan.identity["input size"] or state != (plan.input, modified):
        checksum = files.sha256_of(source)
    refuse_other_plan(plan, identify(size, checksum))
    return plan._replace(input=source)


def read_plan(path: str) -> Plan:
    """Read the plan of a folder.

    Raises:
      ShardsMissing: it has none.
      TransformerError: it is damaged.
    """
    if not os.path.exists(os.path.join(path, PLAN)):
        raise ShardsMissing(f"{path}: expected shards, got no {PLAN}")
    return _read_plan(SharedFolder(path))[0]


def _read_plan(folder: SharedFolder) -> Tuple[Plan, int]:
    """Read a plan, and when its input was last modified."""
    path = folder.join(PLAN)
    content = files.read_json(path, "a plan of shards")
    try:
        shards = [Shard(**row) for row in content["shards"]]
        plan = Plan(folder, content["input"], dict(content["identity"]), shards)
        return plan, content["modified"]
    except (KeyError, TypeError, ValueError) as error:
        raise TransformerError(
            f"{path}: expected a plan of shards, got a damaged one ({error!r:.80})"
        ) from error


def refuse_other_plan(plan: Plan, identity: Dict[str, Any]) -> None:
    """Raise PlanDiffers, with the names of what differs, unless nothing does."""
    names = [*plan.identity, *(name for name in identity if name not in plan.identity)]
    differences = [
        f"{name}: expected {_format(plan.identity.get(name))}, got "
        f"{_format(identity.get(name))}"
        for name in names
        if plan.identity.get(name) != identity.get(name)
    ]
    if differences:
        rest = len(differences) - MAX_NAMED
        more = f"; and {rest} more" if rest > 0 else ""
        raise PlanDiffers(
            f"{plan.folder.path}: the shards were planned otherwise: "
            f"{'; '.join(differences[:MAX_NAMED])}{more}"
        )


def _format(value: Any) -> str:
    """Write a value of an identity as text."""
    if isinstance(value, list):
        return ", ".join(value)
    return "nothing" if value is None else str(value)


# --- The work -------------------------------------------------------------------------


def translate_shard(plan: Plan, shard: Shard, translate: Translate) -> bool:
    """Translate a shard, unless another process is at it; return whether it is done.

    Args:
      plan: the plan.
      shard: one of its shards.
      translate: see `Translate`.

    Raises:
      CorpusError: the lines have changed.
      TransformerError: another number of translations came.
      OSError: the translations cannot be written.
      Exception: an exception of `translate`.
    """

    def write(file):
        counter = LineCounter(file)
        translate(plan.read_source(shard), shard.first_line, counter)
        if counter.num_lines != shard.num_lines:
            raise TransformerError(
                f"expected {format_count(shard.num_lines, 'translation')}, got "
                f"{counter.num_lines:,}"
            )

    return plan.folder.write(shard.file_name, write)


class LineCounter:
    """A binary file that counts the lines written to it."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self.num_lines = 0

    def write(self, content: bytes) -> int:
        """Write bytes; return their number."""
        self.num_lines += content.count(b"\n")
        return self._file.write(content)

    def flush(self) -> None:
        """Write what is buffered."""
        self._file.flush()

    def isatty(self) -> bool:
        """Return False: it is no terminal."""
        return False


def translate_missing(
    plan: Plan,
    translate: Translate,
    warn: Callable[[str], None] = lambda text: None,
    show: Callable[[int], None] = lambda num_missing: None,
) -> None:
    """Translate all shards that are missing; return when none is.

    Other processes may do the same at the same time. This one waits for the last shards
    of the others, and takes over those of processes that die.

    Args:
      plan: the plan.
      translate: see `Translate`.
      warn: function of a text; called for each shard that fails, and before waiting.
      show: function of the number of missing shards; called after each look at them.

    Raises:
      ShardsFailed: shards could not be translated; all others are finished.
      OSError: the folder cannot be written; the other shards are not tried.
    """
    failures: Dict[int, str] = {}
    is_waiting = False
    while True:
        missing = [] if plan.is_finished() else plan.list_missing()
        show(len(missing))
        untried = [shard for shard in missing if shard.number not in failures]
        if not untried:
            break
        for shard in untried:
            try:
                if translate_shard(plan, shard, translate):
                    break
            except Exception as error:
                path = str(getattr(error, "filename", None))
                if path.startswith(plan.folder.join("")):  # it cannot be written
                    raise
                failures[shard.number] = f"{shard}: {error}"
                warn(failures[shard.number])
                break
        else:
            if not is_waiting:
                owner = plan.folder.find_owner(untried[0].file_name)
                warn(
                    f"waiting for {describe_shards(untried)}"
                    + (owner and f", at work: {owner}")
                )
            is_waiting = True
            time.sleep(POLL)
    if failures:
        texts = list(failures.values())
        rest = len(texts) - MAX_NAMED
        more = f"; and {rest:,} more" if rest > 0 else ""
        raise ShardsFailed(
            f"{'; '.join(texts[:MAX_NAMED])}{more}; the others are finished"
        )


def join(plan: Plan, output: IO[bytes]) -> None:
    """Write the translations of all shards in order, if none is missing.

    Raises:
      ShardsMissing: shards are not finished.
      TransformerError: a shard has another number of lines than it should.
    """
    missing = plan.list_missing()
    if missing:
        raise ShardsMissing(
            f"{plan.folder.path}: expected {format_count(len(plan.shards), 'shard')}, "
            f"got {len(plan.shards) - len(missing):,}: {describe_shards(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing"
        )
    paths = [plan.folder.join(shard.file_name) for shard in plan.shards]
    for path, shard in zip(paths, plan.shards):
        with files.open_file(path) as file:
            chunks = iter(lambda: file.read(1 << 20), b"")
            num_lines = sum(chunk.count(b"\n") for chunk in chunks)
        if num_lines != shard.num_lines:
            raise ShardsMissing(
                f"{path}: expected {format_count(shard.num_lines, 'line')}, those of "
                f"{shard}, got {num_lines:,}; remove the file"
            )
    for path in paths:
        with files.open_file(path) as file:
            shutil.copyfileobj(file, output)
    output.flush()
