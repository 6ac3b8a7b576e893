"""hparams.py: who wins, what is refused, and that the presets are what they say."""

import dataclasses
import itertools
import json
import os
import re

import pytest

import hparams
from transformer.blocks.positions import LEARNED, POSITIONS
from transformer.decoding import SEARCHES
from transformer.dialects import DIALECTS
from transformer.schedules import SCHEDULES

NAMES = [field.name for field in dataclasses.fields(hparams.HParams)]


def write(logdir, values):
    """Writes a logdir's settings as they are, right or wrong; returns its path."""
    os.makedirs(str(logdir), exist_ok=True)
    with open(os.path.join(str(logdir), "hparams.json"), "w") as file:
        json.dump(values, file)
    return str(logdir)


# Precedence: each source gives another number to max_steps, and the last one wins.


@pytest.mark.parametrize(
    "preset, saved, given", itertools.product([False, True], repeat=3)
)
def test_defaults_lose_to_preset_to_logdir_to_command_line(
    tmp_path, preset, saved, given
):
    logdir = write(tmp_path, {"max_steps": 222}) if saved else str(tmp_path / "new")
    hp = hparams.resolve(
        {"max_steps": 333} if given else {}, "sample" if preset else None, logdir
    )
    wanted = (
        333
        if given
        else 222
        if saved
        else hparams.PRESETS["sample"]["max_steps"]
        if preset
        else hparams.HParams().max_steps
    )
    assert hp.max_steps == wanted
    # A log directory fixes its model, also where its file is silent.
    sample = preset and not saved
    assert hp.d_ff == (hparams.PRESETS["sample"]["d_ff"] if sample else 2048)


def test_without_any_source_the_defaults_stand():
    assert hparams.resolve({}) == hparams.HParams()


def test_a_given_default_still_beats_the_preset():
    hp = hparams.resolve({"max_steps": 100000}, "sample")
    assert hp.max_steps == 100000


def test_resolve_does_not_write(tmp_path):
    hparams.resolve({"seed": 3}, "sample", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    hparams.resolve({"d_model": 64, "num_heads": 4}, "sample")
    assert hparams.PRESETS["sample"]["d_model"] == 128


# Going on from a log directory: the model is fixed, the rest is not.


@pytest.mark.parametrize(
    "name, other",
    [
        ("dialect", "tutorial"),
        ("num_blocks", 2),
        ("d_model", 256),
        ("d_ff", 8),
        ("num_heads", 4),
        ("source_vocab_size", 7),
        ("target_vocab_size", 7),
        ("joint_vocab", False),
        ("positions", "learned"),
        ("max_positions", 7),
        ("pad_sources_to", 7),
        ("max_relative_position", 4),
        ("proximity_bias", True),
    ],
)
def test_saved_architecture_cannot_be_changed(tmp_path, name, other):
    saved = hparams.HParams(source_vocab_size=9, target_vocab_size=9)
    hparams.save(saved, str(tmp_path))
    with pytest.raises(ValueError) as error:
        hparams.resolve({name: other}, None, str(tmp_path))
    message = str(error.value)
    assert message.startswith(name)
    assert "found {}, wanted {}".format(other, getattr(saved, name)) in message
    assert "choose another --logdir" in message
    same = {name: getattr(saved, name)}
    assert hparams.resolve(same, None, str(tmp_path)) == saved


def test_every_model_field_is_tried_above():
    fixed = {
        name for name in NAMES if hparams.FIELDS[name].metadata["group"] == "model"
    }
    tried = test_saved_architecture_cannot_be_changed.pytestmark[0].args[1]
    assert fixed == {name for name, _ in tried}


def test_a_preset_does_not_change_a_saved_architecture(tmp_path):
    saved = hparams.resolve({}, "sample")
    hparams.save(saved, str(tmp_path))
    assert hparams.resolve({}, "big", str(tmp_path)) == saved


def test_training_and_decoding_may_change(tmp_path):
    hparams.save(hparams.HParams(), str(tmp_path))
    changes = {"dropout_rate": 0.3, "batch_tokens": 99, "beam_size": 1, "data": "x"}
    hp = hparams.resolve(changes, None, str(tmp_path))
    assert hp == dataclasses.replace(hparams.HParams(), **changes)


# Saved and read back.


def test_save_and_load_round_trip(tmp_path):
    hp = hparams.resolve(
        {
            "learning_rate": 1,
            "joint_vocab": False,
            "schedule": "noam",
            "data": "Übung",
            "clip_norm": 1e-3,
        },
        "multi30k",
    )
    hparams.save(hp, str(tmp_path / "deep" / "er"))
    assert hparams.load(str(tmp_path / "deep" / "er")) == hp
    assert type(hparams.load(str(tmp_path / "deep" / "er")).learning_rate) is float


def test_saved_file_is_sorted_complete_and_alone(tmp_path):
    hparams.save(hparams.HParams(), str(tmp_path))
    hparams.save(hparams.HParams(seed=2), str(tmp_path))
    assert os.listdir(str(tmp_path)) == ["hparams.json"]
    text = (tmp_path / "hparams.json").read_text()
    assert list(json.loads(text)) == sorted([*NAMES, "format", "version"])
    assert text.endswith("}\n") and '\n  "accumulate": 1,\n' in text


def test_fields_that_an_older_file_lacks_take_their_defaults(tmp_path):
    hp = hparams.load(write(tmp_path, {"d_model": 64}))
    assert hp == hparams.HParams(d_model=64)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_the_sinusoid_of_older_files_is_that_of_the_dialect(tmp_path, dialect):
    logdir = write(tmp_path, {"dialect": dialect, "positions": "sinusoid"})
    wanted = DIALECTS[dialect].positions
    assert hparams.load(logdir).positions == wanted
    assert hparams.resolve({}, None, logdir).positions == wanted
    assert hparams.resolve({"positions": wanted}, None, logdir).positions == wanted
    hparams.save(hparams.load(logdir), logdir)
    assert hparams.load(logdir).positions == wanted
    for name in ("learned", ""):
        write(tmp_path, {"dialect": dialect, "positions": name})
        assert hparams.load(logdir).positions == name


def test_what_is_given_overrules_what_is_loaded(tmp_path):
    hparams.save(hparams.HParams(beam_size=7), str(tmp_path))
    hp = hparams.load(str(tmp_path), {"search": "greedy"})
    assert (hp.beam_size, hp.search) == (7, "greedy")
    with pytest.raises(ValueError, match="beam_size: found 0"):
        hparams.load(str(tmp_path), {"beam_size": 0})


def test_settings_cannot_be_assigned():
    with pytest.raises(dataclasses.FrozenInstanceError):
        hparams.HParams().d_model = 1


# Unknown names, wrong types, broken files.


def test_unknown_preset_names_the_nearest_and_all():
    with pytest.raises(ValueError) as error:
        hparams.resolve({}, "smaple")
    assert "unknown preset smaple; did you mean sample?" in str(error.value)
    assert "(sample, multi30k, base, big)" in str(error.value)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"d_modle": 3}, "unknown setting d_modle; did you mean d_model?"),
        ({"d_model": "3"}, "d_model: found '3' (str), wanted int"),
        ({"d_model": 3.0}, "d_model: found 3.0 (float), wanted int"),
        ({"d_model": True}, "d_model: found True (bool), wanted int"),
        ({"d_model": None}, "d_model: found None (NoneType), wanted int"),
        ({"joint_vocab": 1}, "joint_vocab: found 1 (int), wanted bool"),
        ({"dropout_rate": "0.1"}, "dropout_rate: found '0.1' (str), wanted float"),
        ({"dialect": 0}, "dialect: found 0 (int), wanted str"),
        (["d_model"], "found a list, wanted settings"),
        ({"d_model": -8}, "d_model: found -8"),
    ],
)
def test_wrong_saved_settings_are_refused(tmp_path, values, message):
    logdir = write(tmp_path, values)
    for read in (hparams.load, lambda path: hparams.resolve({}, None, path)):
        with pytest.raises(ValueError) as error:
            read(logdir)
        assert message in str(error.value)


def test_wrong_given_settings_are_refused():
    with pytest.raises(ValueError, match="unknown setting beam; did you mean beam_"):
        hparams.resolve({"beam": 3})
    with pytest.raises(ValueError, match="command line: seed: found '3'"):
        hparams.resolve({"seed": "3"})


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="no .*hparams.json: wanted a log directory"):
        hparams.load(str(tmp_path))
    (tmp_path / "hparams.json").write_text('{"d_model": ')
    with pytest.raises(ValueError, match="hparams.json: found no JSON"):
        hparams.load(str(tmp_path))


# Values that cannot work.


@pytest.mark.parametrize(
    "values, message",
    [
        ({"num_heads": 7}, "num_heads: found 7, wanted a divisor of d_model = 512"),
        (
            {"dropout_rate": 1.0},
            "dropout_rate: found 1.0, wanted 0 <= dropout_rate < 1",
        ),
        ({"dropout_rate": -0.1}, "dropout_rate: found -0.1"),
        ({"label_smoothing": 1.0}, "label_smoothing: found 1.0"),
        ({"label_smoothing": float("nan")}, "label_smoothing: found nan"),
        ({"learning_rate": float("inf")}, "learning_rate: found inf"),
        ({"learning_rate": -1.0}, "learning_rate: found -1.0"),
        ({"clip_norm": -1.0}, "clip_norm: found -1.0"),
        ({"seed": -1}, "seed: found -1, wanted 0 <= seed < 2147483648"),
        ({"seed": 2**31}, "seed: found 2147483648"),
        ({"patience": -1}, "patience: found -1"),
        ({"dialect": "papr"}, "unknown dialect papr; did you mean paper?"),
        ({"on_save_error": "go"}, "unknown on_save_error go (stop, continue)"),
        (
            {"source_vocab_size": 5, "target_vocab_size": 6},
            "joint_vocab: found 5 source and 6 target pieces",
        ),
    ]
    + [
        ({name: 0}, "{0}: found 0, wanted 1 <= {0}".format(name))
        for name in (
            "num_blocks",
            "d_model",
            "d_ff",
            "num_heads",
            "batch_tokens",
            "accumulate",
            "max_steps",
            "warmup_steps",
            "log_every",
            "save_every",
            "keep_checkpoints",
            "eval_every",
            "beam_size",
            "decode_batch_size",
        )
    ],
)
def test_values_that_cannot_work_are_refused(values, message):
    with pytest.raises(ValueError) as error:
        hparams.validate(hparams.HParams(**values))
    assert message in str(error.value)
    with pytest.raises(ValueError):
        hparams.resolve(values)


def test_zero_is_allowed_where_it_means_something():
    hparams.validate(
        hparams.HParams(
            dropout_rate=0.0,
            label_smoothing=0.0,
            learning_rate=0.0,
            clip_norm=0.0,
            seed=0,
            patience=0,
            source_vocab_size=0,
            target_vocab_size=6,
            max_extra_length=0,
            length_penalty=0.0,
        )
    )
    hparams.validate(
        hparams.HParams(joint_vocab=False, source_vocab_size=5, target_vocab_size=6)
    )


# The presets.


@pytest.mark.parametrize("name", sorted(hparams.PRESETS))
def test_presets_hold_differences_only_and_work(name):
    for field, value in hparams.PRESETS[name].items():
        assert field in NAMES
        assert value != getattr(hparams.HParams(), field), field
    hparams.resolve({}, name)


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("base", (6, 512, 2048, 8, 0.1, 0.1, 100000)),
        ("big", (6, 1024, 4096, 16, 0.3, 0.1, 300000)),
    ],
)
def test_base_and_big_are_those_of_table_3(name, wanted):
    hp = hparams.resolve({}, name)
    assert (
        hp.num_blocks,
        hp.d_model,
        hp.d_ff,
        hp.num_heads,
        hp.dropout_rate,
        hp.label_smoothing,
        hp.max_steps,
    ) == wanted
    # Sections 5.1, 5.3 and 6.1.
    assert (hp.batch_tokens, hp.accumulate, hp.warmup_steps) == (25000, 1, 4000)
    assert (hp.beam_size, hp.length_penalty, hp.max_extra_length) == (4, 0.6, 50)
    assert hp.dialect == "paper"


@pytest.mark.parametrize(
    "name, choices",
    [
        ("dialect", DIALECTS),
        ("positions", [LEARNED, *POSITIONS]),
        ("schedule", SCHEDULES),
        ("search", SEARCHES),
    ],
)
def test_the_help_of_a_setting_lists_its_choices(name, choices):
    words = re.findall(r"\w+", hparams.FIELDS[name].metadata["help"])
    assert set(choices) <= set(words)
