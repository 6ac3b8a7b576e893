"""hparams.py: who wins, what is refused, and that the presets are what they say."""

import dataclasses
import itertools
import json
import os
import re

import pytest

from transformer import decoding, hparams, training
from transformer.blocks import positions
from transformer.commands.advice import advice_for

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
    expected = (
        333
        if given
        else 222
        if saved
        else hparams.PRESETS["sample"]["max_steps"]
        if preset
        else hparams.HParams().max_steps
    )
    assert hp.max_steps == expected
    # A log directory fixes its model, also where its file is silent.
    sample = preset and not saved
    assert hp.d_ff == (hparams.PRESETS["sample"]["d_ff"] if sample else 2048)


# Going on from a log directory: the model is fixed, the rest is not.


@pytest.mark.parametrize(
    "name, other",
    [
        ("dialect", "tutorial"),
        ("num_encoder_blocks", 2),
        ("source_vocab_size", 7),
        ("joint_vocab", False),
    ],
)
def test_saved_architecture_cannot_be_changed(tmp_path, name, other):
    saved = hparams.HParams(source_vocab_size=9, target_vocab_size=9)
    hparams.save(saved, str(tmp_path))
    with pytest.raises(ValueError) as error:
        hparams.resolve({name: other}, None, str(tmp_path))
    message = str(error.value)
    assert message.startswith(name)
    assert "expected {!r}, got {!r}".format(getattr(saved, name), other) in message
    assert "choose another --logdir" in advice_for(error.value)
    same = {name: getattr(saved, name)}
    assert hparams.resolve(same, None, str(tmp_path)) == saved


# Saved and read back.


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
    assert hp.batch_shapes == 0  # so the batches of an older run stay as they are


def test_what_is_given_overrules_what_is_loaded(tmp_path):
    hparams.save(hparams.HParams(beam_size=7), str(tmp_path))
    hp = hparams.load(str(tmp_path), {"search": "greedy"})
    assert (hp.beam_size, hp.search) == (7, "greedy")
    with pytest.raises(ValueError, match="beam_size: expected .*, got 0"):
        hparams.load(str(tmp_path), {"beam_size": 0})


# Unknown names, wrong types, broken files.


@pytest.mark.parametrize(
    "values, message",
    [
        ({"d_modle": 3}, "unknown setting d_modle; did you mean d_model?"),
        ({"d_model": "3"}, "d_model: expected int, got '3' .str."),
        ({"d_model": True}, "d_model: expected int, got True .bool."),
        (["d_model"], "a list.* settings|settings, got a list"),
        ({"d_model": -8}, "d_model: expected .*, got -8"),
    ],
)
def test_wrong_saved_settings_are_refused(tmp_path, values, message):
    logdir = write(tmp_path, values)
    for read in (hparams.load, lambda path: hparams.resolve({}, None, path)):
        with pytest.raises(ValueError) as error:
            read(logdir)
        assert re.search(message, str(error.value))


def test_wrong_given_settings_are_refused():
    with pytest.raises(ValueError, match="unknown setting beam; did you mean beam_"):
        hparams.resolve({"beam": 3})
    with pytest.raises(
        ValueError, match="ffn_dropout: expected -1 .* rate of 0 or more, got"
    ):
        hparams.resolve({"ffn_dropout": -0.5})
    with pytest.raises(ValueError, match="command line: seed: expected int, got"):
        hparams.resolve({"seed": "3"})


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(
        ValueError, match="hparams.json is missing: .* is not a log directory"
    ):
        hparams.load(str(tmp_path))
    (tmp_path / "hparams.json").write_text('{"d_model": ')
    with pytest.raises(ValueError, match="json: expected settings, got invalid JSON"):
        hparams.load(str(tmp_path))


# Values that cannot work.


@pytest.mark.parametrize(
    "values, message",
    [
        ({"num_heads": 7}, "num_heads: expected a divisor of d_model = 512, got 7"),
        (
            {"dialect": "kyubyong", "d_v": 32},
            "d_v: expected .* = 64, .* no W.O, got 32",
        ),
        (
            {"dropout_rate": 1.0},
            "dropout_rate: expected 0 <= dropout_rate < 1, got 1.0",
        ),
        ({"label_smoothing": float("nan")}, "label_smoothing: expected .*, got nan"),
        ({"learning_rate": float("inf")}, "learning_rate: expected .*, got inf"),
        ({"seed": 2**31}, "seed: expected .*, got 2147483648"),
        ({"dialect": "papr"}, "unknown dialect papr; did you mean paper"),
        ({"on_save_error": "go"}, "unknown on_save_error go .stop, continue."),
        (
            {"source_vocab_size": 5, "target_vocab_size": 6},
            "joint_vocab: expected .*, got 5 and 6",
        ),
    ]
    + [({"beam_size": 0}, "beam_size: expected 1 <= beam_size .*, got 0")],
)
def test_values_that_cannot_work_are_refused(values, message):
    with pytest.raises(ValueError) as error:
        hparams.validate(hparams.HParams(**values))
    assert re.search(message, str(error.value))
    with pytest.raises(ValueError):
        hparams.resolve(values)


def test_each_search_says_which_settings_it_uses():
    assert sorted(hparams.SEARCH_SETTINGS) == sorted(decoding.SEARCHES)
    for names in hparams.SEARCH_SETTINGS.values():
        assert set(names) <= set(hparams.DECODING)


def test_the_help_lists_all_names_that_a_setting_takes():
    """It is written by hand, since it is printed without importing TensorFlow."""
    for field, names in (
        ("schedule", training.SCHEDULES),
        ("positions", [positions.LEARNED, *positions.POSITIONS]),
        ("search", decoding.SEARCHES),
    ):
        text = hparams.FIELDS[field].metadata["help"]
        assert set(text.split(";")[0].split(", ")) == set(names)


def test_a_setting_of_sampling_is_not_ignored_by_another_search(tmp_path):
    hparams.save(hparams.HParams(temperature=0.5), str(tmp_path))
    assert hparams.load(str(tmp_path)).temperature == 0.5
    given = {"temperature": 0.7, "top_k": 3}
    with pytest.raises(ValueError, match="temperature, top_k: expected .* got beam"):
        hparams.load(str(tmp_path), given)
    hparams.load(str(tmp_path), {**given, "search": "sample"})
    hparams.load(str(tmp_path), {"temperature": 1.0, "top_k": 0})


# The presets.


def test_a_wrong_name_in_a_preset_is_one_line(monkeypatch):
    monkeypatch.setitem(hparams.PRESETS, "mine", {"d_modell": 256})
    with pytest.raises(ValueError, match="preset mine: .*d_modell"):
        hparams.resolve({}, "mine")


@pytest.mark.parametrize("name", sorted(hparams.PRESETS))
def test_presets_hold_differences_only_and_work(name):
    for field, value in hparams.PRESETS[name].items():
        assert field in NAMES
        assert value != getattr(hparams.HParams(), field), field
    hparams.resolve({}, name)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("base", (6, 512, 2048, 8, 0.1, 0.1, 100000)),
        ("big", (6, 1024, 4096, 16, 0.3, 0.1, 300000)),
    ],
)
def test_base_and_big_are_those_of_table_3(name, expected):
    hp = hparams.resolve({}, name)
    assert (
        hp.num_blocks,
        hp.d_model,
        hp.d_ff,
        hp.num_heads,
        hp.dropout_rate,
        hp.label_smoothing,
        hp.max_steps,
    ) == expected
    # Sections 5.1, 5.3 and 6.1.
    assert (hp.batch_tokens, hp.accumulate, hp.warmup_steps) == (25000, 1, 4000)
    assert (hp.beam_size, hp.length_penalty, hp.max_extra_length) == (4, 0.6, 50)
    assert hp.dialect == "paper"
