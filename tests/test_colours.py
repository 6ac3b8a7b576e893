"""The colours of the page: told apart by colour-blind people, readable in both themes.

Colour vision is simulated by the matrices of Machado, Oliveira and Fernandes (2009) for
its complete lack; distances are those of CIELAB (CIE76), contrasts those of WCAG 2.
"""

import itertools
import os
import re

import numpy as np
import pytest

from transformer import viewer

PAGE = os.path.join(os.path.dirname(viewer.__file__), "page")
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
THEMES = ("light", "dark")
NOTICED = 2.3  # the distance of CIELAB that people just notice
APART = 10 * NOTICED


def read(name):
    with open(os.path.join(PAGE, name), encoding="utf-8") as file:
        return file.read()


def variables(theme):
    """Return the colours of the style sheet, [red, green, blue] of 0 … 255, by name."""
    blocks = re.findall(r"\{([^}]*color-scheme: (\w+);[^}]*)\}", read("page.css"))
    [text] = {text for text, name in blocks if name == theme}
    found = re.findall(r"--(\w+): #(\w\w)(\w\w)(\w\w)", text)
    return {name: [int(part, 16) for part in parts] for name, *parts in found}


def ramp(theme):
    """Return the colours of weights from 0 to 1."""
    [text] = re.findall(theme + r": \[(\[.*\])\],", read("elements.js"))
    return [
        [int(part) for part in colour.split(",")]
        for colour in re.findall(r"\[([\d, ]+)\]", text)
    ]


def constant(name):
    [text] = re.findall(rf"const {name} = \[(.*)\];", read("elements.js"))
    return [int(part) for part in text.split(",")]


def linear(colour):
    """Return linear light of an sRGB colour."""
    value = np.array(colour) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(colour, vision="normal"):
    """Return CIELAB of a colour as somebody with this vision sees it."""
    seen = np.clip(np.matmul(VISIONS[vision], linear(colour)), 0, 1)
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    xyz = np.matmul(to_xyz, seen) / [0.95047, 1.0, 1.08883]
    root = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array(
        [116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])]
    )


def distance(one, other, vision):
    return float(np.linalg.norm(lab(one, vision) - lab(other, vision)))


def contrast(one, other):
    light = sorted(
        np.dot([0.2126, 0.7152, 0.0722], linear(colour)) for colour in (one, other)
    )
    return (light[1] + 0.05) / (light[0] + 0.05)


def test_the_measure_is_that_of_the_books():
    np.testing.assert_allclose(lab([255, 0, 0]), [53.24, 80.09, 67.20], atol=0.02)
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    red, green = [200, 60, 0], [90, 120, 0]  # what people with deuteranopia mix up
    assert distance(red, green, "normal") > 2 * distance(red, green, "deuteranopia")


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", THEMES)
def test_a_larger_weight_is_darker_or_lighter_for_everybody(theme, vision):
    lightness = [lab(colour, vision)[0] for colour in ramp(theme)]
    steps = np.diff(lightness)
    assert np.all(np.sign(steps) == np.sign(steps[0]))
    assert np.min(np.abs(steps)) > 3 * NOTICED


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", THEMES)
def test_more_and_less_and_no_difference_are_told_apart(theme, vision):
    colours = [constant("MORE"), constant("LESS"), ramp(theme)[0]]
    for one, other in itertools.combinations(colours, 2):
        assert distance(one, other, vision) > APART


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", THEMES)
def test_a_difference_is_not_taken_for_attention(theme, vision):
    for name in ("MORE", "LESS"):
        for colour in ramp(theme):
            assert distance(constant(name), colour, vision) > 4 * NOTICED


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read_on_what_is_behind_it(theme):
    colours = variables(theme)
    behind = [colours[name] for name in colours if name.startswith("shade")]
    behind += [colours["page"], colours["panel"]]
    for back in behind:
        assert contrast(colours["ink"], back) >= 4.5
    for name, back in itertools.product(("soft", "accent", "warm"), ("page", "panel")):
        assert contrast(colours[name], colours[back]) >= 4.5, (name, back)
