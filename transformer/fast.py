"""The fast engine, by its earlier import path: see `exports/ctranslate2.py`."""

from transformer.exports.ctranslate2 import FastTranslator as FastTranslator
from transformer.exports.ctranslate2 import find_exported as find_exported
from transformer.exports.ctranslate2 import open_exported as open_exported
