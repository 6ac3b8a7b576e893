"""tools/threads: which bits depend on the number of threads."""

import pytest
import threads


def test_equal_results_have_the_same_letter():
    def results(*values):
        return dict(zip(threads.COLUMNS, values))

    found = {1: results("x", "y", "z", "s"), 2: results("x", "q", "z", "s")}
    found[4] = results("w", "q", "z", "t")
    assert list(threads.table(found)) == [
        "| threads | losses | variables | translations | scores |",
        "|---|---|---|---|---|",
        "| 1 | A | A | A | A |",
        "| 2 | A | B | A | A |",
        "| 4 | B | B | A | B |",
    ]


@pytest.mark.slow
def test_a_tiny_model_does_not_depend_on_them(trained, capsys):
    flags = [f"--logdir={trained}", "--threads", "1", "3", "--steps=2", "--lines=5"]
    threads.main(flags)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[3] for row in rows] == ["A", "A"]
    threads.main([*flags, "--deterministic"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows == ["| 1 | A | A | A | A |", "| 3 | A | A | A | A |"]
