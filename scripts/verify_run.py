"""Verify a training run: do its files and its losses agree with what it recorded?

    python scripts/verify_run.py --logdir logs/mine
    python scripts/verify_run.py --logdir logs/mine --steps 20 --reach 1000

It compares checksums, settings and versions, draws some steps that were logged, makes
them again from the checkpoint before them, and says what it could not check. Nothing is
written. Exit status 0: nothing differs; 1: something does; 2: an error.
"""

import dataclasses
import os
import random
from typing import Dict, List, Tuple

import hparams
from transformer.runtime import cli, files
from transformer.runtime.reporting import read_dev_scores
from transformer.runtime.terminal import say
from transformer.text.summary import read_summary
from transformer.text.vocabulary_files import vocabulary_names

PROG = "verify_run.py"


class Report:
    """What was found, in the order in which it was."""

    def __init__(self):
        self.same, self.differs, self.unchecked = [], [], []

    def compare(self, what: str, recorded: Dict, found: Dict) -> None:
        """Compare values by their names."""
        for name in sorted(recorded):
            if found.get(name, recorded) != recorded[name]:
                self.differs.append(
                    f"{what}: {name}: found {found.get(name, 'none')}, recorded "
                    f"{recorded[name]}"
                )
        if all(found.get(name, recorded) == recorded[name] for name in recorded):
            self.same.append(f"{what}: {len(recorded)} as recorded")

    def show(self) -> None:
        """Print it."""
        for kind, lines in (
            ("same", self.same),
            ("not checked", self.unchecked),
            ("DIFFERS", self.differs),
        ):
            for line in dict.fromkeys(lines):
                say(f"{kind}: {line}")


def check_settings(report: Report, hp, segment: Dict) -> None:
    """Compare hparams.json with the settings of the last segment."""
    from transformer.runtime.history import PLACES  # needs TensorFlow

    here = dataclasses.asdict(hp)
    left_out = (*PLACES, "devices")  # `hparams.load` does not take the devices over
    known = {n: v for n, v in segment["settings"].items() if n not in left_out}
    report.compare("settings", known, here)


def check_vocabulary(report: Report, logdir: str, segment: Dict, data: str) -> None:
    """Compare the vocabulary of the log directory with the recorded checksums."""
    names = vocabulary_names(logdir)
    recorded = {n: segment["corpus"][n] for n in names if n in segment["corpus"]}
    whose = "vocabulary"
    if not recorded and os.path.isfile(os.path.join(data, "corpus.json")):
        recorded = {n: read_summary(data).get("sha256", {}).get(n) for n in names}
        recorded, whose = (
            {n: s for n, s in recorded.items() if s},
            f"{whose}, by {data}",
        )
    if not recorded:
        report.unchecked.append("vocabulary: no checksum of it is recorded")
        return
    found = {name: files.sha256_of(os.path.join(logdir, name)) for name in names}
    report.compare(whose, recorded, found)


def check_versions(report: Report, segments: List[Dict]) -> None:
    """Compare the versions here with those of each segment."""
    from transformer.runtime.history import versions

    for row in segments:
        others = [
            f"{name} {row['versions'].get(name)} (here: {here})"
            for name, here in versions().items()
            if row["versions"].get(name) != here
        ]
        since = f"versions from step {row['step']} on"
        if others:
            report.unchecked.append(f"{since}: {', '.join(others)}")
        else:
            report.same.append(f"{since}: those here")


def check_checkpoints(report: Report, logdir: str) -> Dict[int, str]:
    """Verify the manifests; return step → path of the checkpoints that are whole."""
    from transformer.runtime import checkpoints

    kept, sums = {}, {}
    for kind in (checkpoints.BEST, checkpoints.NEWEST):
        for step in checkpoints.steps(logdir, kind):
            path = checkpoints.path_of(logdir, step, kind)
            fault = checkpoints.fault_of(path)
            if fault:
                report.differs.append(f"checkpoints: {fault}")
                continue
            with open(path + checkpoints.MANIFEST, encoding="utf-8") as file:
                lines = [line.split()[0] for line in file]
            if sums.setdefault(step, lines) != lines:
                report.differs.append(
                    f"checkpoints: best.ckpt-{step} and model.ckpt-{step} differ, "
                    "though one is a copy of the other"
                )
            kept[step] = path
    steps = ", ".join(map(str, sorted(kept))) or "none"
    report.same.append(f"checkpoints with the checksums of their manifests: {steps}")
    return kept


def check_scores(report: Report, rows: List[Dict], dev: Dict[int, Dict]) -> None:
    """Compare dev_scores.jsonl with the events, and both with each other's steps."""
    import numpy as np

    for tag, name in (("dev/bleu", "bleu"), ("dev/loss", "loss")):
        recorded = {step: values[tag] for step, values in dev.items()}
        found = {
            row["step"]: float(np.float32(row[name]))
            for row in rows
            if row["step"] in dev and name in row
        }
        report.compare(f"{name} in dev_scores.jsonl, by the events", recorded, found)
    unknown = [row["step"] for row in rows if row["step"] not in dev]
    if unknown:
        report.unchecked.append(f"dev scores without events: steps {unknown}")
    if rows:
        report.unchecked.append("BLEU and chrF: eval.py --checkpoint translates again")


def data_of(
    report: Report, hp, segments: List[Dict]
) -> Tuple[Dict[int, object], Dict[int, hparams.HParams]]:
    """Return the `Data` and the settings of each segment that can be computed again."""
    from transformer.runtime.sessions import refuse_impossible
    from transformer.training_graph import Data

    found, settings = {}, {}
    for index, row in enumerate(segments):
        what = f"data of the steps from {row['step']} on"
        try:
            # What an older version recorded has no shards: batches were not cut.
            each = hparams.resolve({"shards": 1, **row["settings"], "data": hp.data})
            refuse_impossible(each)
        except ValueError as error:
            report.unchecked.append(f"losses from step {row['step']} on: {error}")
            continue
        if not os.path.isdir(hp.data):
            report.unchecked.append(f"{what}: no {hp.data}; name it with --data")
            continue
        try:
            data = Data(each)
        except (ValueError, OSError) as error:
            report.differs.append(f"{what}: {error}")
            continue
        sums, before = data.checksums(), len(report.differs)
        report.compare(what, row["corpus"], sums)
        if len(report.differs) == before:
            found[index], settings[index] = data, each
    return found, settings


def check_losses(args, report: Report, segments: List[Dict], hp) -> None:
    """Compute some steps again, and compare what was logged of them."""
    from transformer import verification
    from transformer.runtime.history import name_of_dev
    from transformer.runtime.records import missing, read_records

    records, rows = read_records(args.logdir, segments), read_dev_scores(args.logdir)
    for name in records.damaged:
        report.differs.append(f"events: {name}: a record does not have its checksum")
    check_scores(report, rows, records.dev)
    kept = check_checkpoints(report, args.logdir)
    lost = missing(records, segments, max(kept, default=0))
    if lost:
        report.unchecked.append(
            f"losses of {len(lost)} steps, {lost[0]} the first: found no record of them"
        )
    data, settings = data_of(report, hp, segments)
    dev = name_of_dev(segments[-1]["corpus"])
    scores = {r["step"]: r["loss"] for r in rows if r.get("dev") == dev and "loss" in r}
    every = verification.plan(records, segments, kept, scores, args.reach)
    every = [replay for replay in every if replay.segment in data]
    replays = verification.drawn(every, args.steps, random.Random(args.draw))
    tell_left_out(report, records, every, replays, args)
    tell_checkpoints(report, replays, kept)
    for replay in replays:
        hp = settings[replay.segment]
        why = verification.why_not_exact(segments[replay.segment], hp)
        work = replay, hp, args.logdir, data[replay.segment], not why
        try:
            found = verification.compute(*work)
        except (ValueError, FloatingPointError) as error:
            report.differs.append(f"computed again from step {replay.step}: {error}")
        else:
            judge(report, replay, found, why)


def judge(report: Report, replay, found: List, why: str) -> None:
    """Tell how far what was computed again is from what was recorded.

    Args:
      report: where it is told.
      replay: the Replay, where the computation began.
      found: what `verification.compute` returned.
      why: why the last bits may differ; "" where they may not.
    """
    from transformer.verification import DRIFT, drift_allowed

    since = f"computed again from step {replay.step}"
    others = [each for each in found if each.distance]
    bad = [
        each
        for each in others
        if not why or each.distance > drift_allowed(each.step - replay.step)
    ]
    unclear = [each for each in others if each.distance > DRIFT and each not in bad]
    for kind, numbers in ((report.differs, bad), (report.unchecked, unclear)):
        kind += [
            f"{since}: {each.name} of step {each.step}: found {each.found!r}, recorded "
            f"{each.recorded!r}" + (": rounding may do that" if each in unclear else "")
            for each in numbers[:3]
        ]
        if numbers[3:]:
            kind.append(f"{since}: {len(numbers) - 3} more numbers")
    if bad:
        return
    steps, same = {}, [each for each in found if each not in unclear]
    for each in same:
        steps.setdefault(each.name, []).append(str(each.step))
    what = ", ".join(f"{name} of {' '.join(steps[name])}" for name in steps)
    if others:
        worst = max((each.distance for each in same), default=0.0)
        report.same.append(f"{since}: {what}: but for a part of {worst:.1e}")
        report.unchecked.append(f"the last bits of what was computed again: {why}")
    else:
        report.same.append(f"{since}: {what}: equal to the bit")


def tell_left_out(report: Report, records, every, replays, args) -> None:
    """Tell which of the logged steps are not computed again, and why.

    Args:
      report: where it is told.
      records: what was logged.
      every: all that can be computed again.
      replays: what of it was drawn.
      args: the parsed arguments.
    """
    logged = {each.step for each in records.updates}
    near = {each.step for replay in every for each in replay.logged}
    drawn = {each.step for replay in replays for each in replay.logged}
    if near - drawn:
        report.unchecked.append(
            f"losses of {len(near - drawn)} steps that were not drawn (--steps)"
        )
    if logged - near:
        report.unchecked.append(
            f"losses of {len(logged - near)} of {len(logged)} steps that were logged: "
            f"no checkpoint within {args.reach} steps before them (--reach), other "
            "data, or other settings since it"
        )
    if records.replaced:
        report.unchecked.append(
            f"{records.replaced} losses of steps that were trained anew"
        )


def tell_checkpoints(report: Report, replays: List, kept: Dict[int, str]) -> None:
    """Tell what of each checkpoint nothing was computed from."""
    followed = {replay.step for replay in replays if replay.logged or replay.kept}
    followed.update(step for replay in replays for step in replay.kept)
    scored = {replay.step for replay in replays if replay.dev is not None}
    for step in sorted(set(kept) - followed):
        what = "what the optimizer keeps" if step in scored else "the variables"
        report.unchecked.append(
            f"{what} in the checkpoint of step {step}: no step was computed from it"
        )


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_logdir(made)
    cli.add_data(made)
    made.add_argument(
        "--steps",
        type=int,
        default=5,
        metavar="INT",
        help="how many of the steps that were logged are computed again [5]",
    )
    made.add_argument(
        "--reach",
        type=int,
        default=100,
        metavar="INT",
        help="steps computed, at most, for one of them or for a checkpoint [100]",
    )
    made.add_argument(
        "--draw", type=int, metavar="INT", help="seed of the draw [another each time]"
    )
    return made


def run(args) -> int:
    """Print what agrees and what does not; return the exit status."""
    hp = hparams.load(args.logdir, cli.given(args, hparams.FIELDS))
    for name in ("steps", "reach"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name}: found {getattr(args, name)}, wanted 1 or more")
    cli.start_tensorflow(args.verbose)
    from transformer.runtime.history import RUN, read_run

    segments = read_run(args.logdir)
    if not segments:
        raise ValueError(
            f"{args.logdir}: found no {RUN}, wanted what train.py records in it"
        )
    report = Report()
    check_settings(report, hp, segments[-1])
    check_vocabulary(report, args.logdir, segments[-1], hp.data)
    check_versions(report, segments)
    check_losses(args, report, segments, hp)
    report.show()
    return 1 if report.differs else 0


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
