"""The exceptions: facts for those who import the package, advice for the terminal."""

import inspect
import pickle

import pytest

import transformer
from transformer.commands import advice
from transformer.runtime import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, Exception)
]


def test_the_package_exports_the_general_classes():
    general = [errors.TransformerError, *errors.TransformerError.__subclasses__()]
    assert {kind.__name__ for kind in general} <= set(transformer.__all__)
    for kind in general:
        assert getattr(transformer, kind.__name__) is kind
    assert all(issubclass(kind, errors.TransformerError) for kind in CLASSES)
    assert issubclass(errors.TransformerError, ValueError)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_exception_reaches_another_process_with_its_facts(kind):
    facts = {name: 7 for name in list(inspect.signature(kind.__init__).parameters)[2:]}
    facts = facts if "__init__" in vars(kind) else {}
    error = pickle.loads(pickle.dumps(kind("no file", **facts)))
    assert type(error) is kind
    assert str(error) == "no file"
    assert {name: getattr(error, name) for name in facts} == facts


def test_whoever_catches_missing_files_catches_a_missing_vocabulary():
    with pytest.raises(FileNotFoundError, match="no vocabulary"):
        raise errors.VocabularyNotFound("no vocabulary", "data")


def test_a_missing_package_names_the_extra_that_installs_it():
    error = errors.missing_package("uvicorn", "serve", ImportError("No module"))
    assert str(error) == (
        "uvicorn is not installed (No module): pip install 'transformer-tf[serve]', "
        "with Python 3.10 or newer"
    )
    assert error.extra == "serve"
    assert "a and b are not" in str(errors.missing_package("a and b", "serve"))


def test_advice_is_that_of_the_class_or_of_its_base():
    class VocabularyOfAnotherKind(errors.VocabularySizeError):
        """A class without a row in ADVICE."""

    error = VocabularyOfAnotherKind("too large", 100)
    assert advice.advice_for(error) == "; lower --vocab_size to 100"
    assert advice.advice_for(ValueError("no row")) == ""


@pytest.mark.parametrize("kind", advice.ADVICE)
def test_each_row_of_the_advice_is_a_sentence(kind):
    assert advice.advice_for(kind("facts")).startswith("; ")
