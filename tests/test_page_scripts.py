"""The scripts of the page that need no browser, in node."""

import json
import random

import pytest
from javascript import needs_node, run_node

from transformer.viewer import page_files

pytestmark = needs_node


def test_a_small_probability_is_not_zero():
    pairs = [[0.004, 2], [0.006, 2], [0.0004, 3], [0.0, 2], [1, 2]]
    for language, texts in [
        ("en", ["< 0.01", "0.01", "< 0.001", "< 0.01", "1.00"]),
        ("de", ["< 0,01", "0,01", "< 0,001", "< 0,01", "1,00"]),
    ]:
        found = run_node(
            "globalThis.reader = { language: input[0] };"
            "return input[1].map(([p, digits]) => formatProbability(p, digits));",
            [language, pairs],
            ["elements.js"],
        )
        assert found == texts


def random_tree(draws, beam, steps):
    """Nodes as in the JSON of an inspection: parent, step, id, log-prob, …"""
    nodes, survivors = [], [-1]
    for step in range(1, steps + 1):
        first = len(nodes)
        for _ in range(2 * beam):
            fate = "cut" if draws.random() < 0.5 else "open"
            parent = draws.choice(survivors)
            nodes.append([parent, step, 5, -draws.random(), -1.0, fate, -1])
        nodes[first][5] = "open"
        open_nodes = [i for i in range(first, len(nodes)) if nodes[i][5] == "open"]
        survivors = open_nodes[:beam]
    return nodes


CONTRASTS = """
    globalThis.document = { documentElement: { dataset: { theme: input } } };
    const luminance = (colour) => colour.map((value) => value / 255)
        .map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
        .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
    const steps = Array.from({ length: 201 }, (_, i) => i / 100 - 1);
    const weights = steps.map(Math.abs).map(weightColour);
    return [...weights, ...steps.map(differenceColour)].map((colour) => {
        const text = textColourOn(colour) === "#000000" ? 0 : 1;
        const [dark, light] = [luminance(colour), text].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
    });"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_on_each_weight(theme):
    assert min(run_node(CONTRASTS, theme, ["elements.js"])) >= 4.5


def test_the_strips_of_a_beam_tree_have_no_holes():
    draws = random.Random(1)
    for beam, steps, columns in ((1, 3, 5), (4, 20, 5), (3, 12, 12)):
        placed = run_node(
            "const nodes = nodesOf(input.data);"
            "const tree = placeNodes(nodes, true, input.columns);"
            "const place = ({row, column, step}) => [row, column, step];"
            "return {...tree, shown: tree.shown.map(place),"
            "repeated: tree.repeated.map(place),"
            "origins: tree.shown.map(({origin}) => origin ? place(origin) : null)};",
            {"data": {"nodes": random_tree(draws, beam, steps)}, "columns": columns},
            ["tree.js"],
        )
        cells = [tuple(node[:2]) for node in placed["shown"] + placed["repeated"]]
        assert (
            len(set(cells)) == len(cells) == 2 * beam * steps + len(placed["repeated"])
        )
        assert all(0 <= column < placed["columns"] for _, column in cells)
        assert placed["columns"] <= columns + 1
        strips = -(-steps // columns)
        assert placed["rows"] == strips * 2 * beam + strips - 1
        for (row, column, step), origin in zip(placed["shown"], placed["origins"]):
            top = (step - 1) // columns * (2 * beam + 1)
            assert top <= row < top + 2 * beam
            if origin:  # the parent, or its copy, is in the column before
                assert origin[1] == column - 1 and top <= origin[0] < top + 2 * beam


def test_a_text_is_split_into_sentences():
    text = "Der Hund schläft. „Ist sie müde?“ fragt er.\n\nAm 3. Mai kam Dr. Q. Nein!"
    sentences = run_node("return splitSentences(input, 'de');", text, ["sentences.js"])
    assert sentences == [
        "Der Hund schläft.",
        "„Ist sie müde?“ fragt er.",
        "Am 3. Mai kam Dr. Q. Nein!",
    ]
    gaps = run_node(
        "return findGaps(input.text, input.sentences);",
        {"text": text, "sentences": sentences},
        ["sentences.js"],
    )
    assert gaps == ["", " ", "\n\n"]


def test_a_text_is_limited_at_a_space():
    texts = run_node(
        "return [limitText(input), limitText('kurz ')];",
        "Wort 😀 " * 5000,
        ["sentences.js"],
    )
    assert texts[1] == "kurz "
    assert 19_990 <= len(texts[0]) <= 20_000 and texts[0].endswith(("Wort", "😀"))


SERVICE = """
const asked = [];
globalThis.page = { models: [{ split: true }] };
globalThis.fetch = async (path, { body }) => {
    const { text } = JSON.parse(body);
    const sources = text.split(/\\s*\\n\\s*/);
    asked.push(sources.length);
    const isRefused = sources.length > input.limit || text.includes("far too long");
    const sentences = sources.map((source) => ({ source, text: source.toUpperCase() }));
    const answer = { translations: [{ text: text.toUpperCase(), sentences }] };
    const error = { error: "Too long.", code: "too_many_pieces" };
    return { status: isRefused ? 413 : 200, ok: !isRefused,
             json: async () => (isRefused ? error : answer) };
};
const request = { model: 0, text: input.text, language: "de" };
return (async () => {
    const parts = [];
    for await (const part of new ServerSource(page).translate(request, null)) {
        parts.push({ ...part, asked: [...asked] });
    }
    const sentences = parts.flatMap((part) => part.sentences);
    checkSentences(sentences);
    const gaps = parts.flatMap((part) => part.gaps);
    const text = sentences.map(({ source, text: translation }, i) =>
        gaps[i] + (translation ?? source)).join("");
    return { text, sentences, parts };
})().catch(({ message }) => ({ message }));
"""


def translate_by_service(text, limit):
    scripts = ["errors.js", "sentences.js", "server.js"]
    return run_node(SERVICE, {"text": text, "limit": limit}, scripts)


def test_a_text_of_many_sentences_is_translated_in_several_requests():
    lines = [f"satz {i}" for i in range(250)]
    text = "\n".join(lines[:200]) + "\n\n" + "\n".join(lines[200:])
    for limit in (256, 30):  # what the service takes, and less
        answer = translate_by_service(text, limit)
        assert answer["text"] == text.upper()
        assert [s["source"] for s in answer["sentences"]] == lines
        assert [s["text"] for s in answer["sentences"]] == [x.upper() for x in lines]
        parts = answer["parts"]  # each is shown before the next one is asked for
        assert [len(part["sentences"]) for part in parts] == [4, 16, 100, 100, 30]
        assert parts[0]["asked"] == [4] and parts[1]["asked"] == [4, 16]
        assert parts[0]["done"] < 0.02 and parts[-1]["done"] == 1
    asked = translate_by_service(text, 256)["parts"][-1]["asked"]
    assert sum(asked) == len(lines)  # nothing is translated twice


def test_a_sentence_that_is_too_long_stays_and_the_others_are_translated():
    lines = ["eins", "zwei", "das ist far too long", "vier", "fünf"]
    answer = translate_by_service("\n".join(lines), 256)
    assert answer["text"] == "EINS\nZWEI\ndas ist far too long\nVIER\nFÜNF"
    texts = [sentence["text"] for sentence in answer["sentences"]]
    assert texts == ["EINS", "ZWEI", None, "VIER", "FÜNF"]
    assert answer["sentences"][2]["error"]["code"] == "too_many_pieces"
    assert translate_by_service(lines[2], 256) == {"message": "Too long."}


def test_each_code_of_an_error_has_a_text():
    codes = run_node("return Object.keys(ERROR_TEXTS);", scripts=["errors.js"])
    schemas = json.loads(page_files.read_file("openapi.json"))["components"]["schemas"]
    known = schemas["Error"]["properties"]["code"]["enum"]
    assert sorted([*codes, "no_model"]) == known  # the page asks for the models again
