"""Install the package and the three top modules: `pip install -e .`."""

import glob

from setuptools import find_packages, setup

TF1 = 'python_version < "3.8"'  # genuine TensorFlow 1.15.5
TF2 = 'python_version >= "3.10"'  # TensorFlow 2 through tensorflow.compat.v1

setup(
    name="transformer-tf",
    version="0.1.0",
    description='"Attention Is All You Need" in TF1-style TensorFlow, '
    "translating German to English",
    license="Apache-2.0",
    packages=find_packages(include=["transformer", "transformer.*"]),
    package_data={"transformer.seeing": ["page/*"]},
    py_modules=["hparams", "train", "eval", "transformer_tf"],
    # Commands on the path, by the names that messages call them by.
    scripts=["train.py", "eval.py", *sorted(glob.glob("scripts/*.py"))],
    python_requires=">=3.7, !=3.8.*, !=3.9.*",
    install_requires=[
        "tensorflow>=2.16,<2.22; " + TF2,
        "tensorflow==1.15.5; " + TF1,
        "protobuf<3.21; " + TF1,  # newer ones refuse the messages of TensorFlow 1.15
        "numpy; " + TF2,
        "numpy<1.19; " + TF1,  # what TensorFlow 1.15.5 was built for
        "sentencepiece>=0.2.0",
        "sacrebleu>=2.4",
    ],
    extras_require={
        "gpu": ["tensorflow[and-cuda]>=2.16,<2.22; " + TF2],
        "plot": ["matplotlib; " + TF2],
        # What tools/bench/benchmark.py measures beside this project; it makes an
        # environment of its own for OpenNMT-tf, which needs TensorFlow 2.13.
        # (The build of torch for CPUs alone is smaller: install that first.)
        "bench": [
            "torch==2.13.0; " + TF2,
            "transformers==5.23.0; " + TF2,
            "ctranslate2==4.8.5; " + TF2,
        ],
        # tests/test_page.py and tools/pictures need Debian's chromium, and no package.
        "test": [
            "ctranslate2>=4.8; " + TF2,
            "hypothesis>=6.79",
            "matplotlib; " + TF2,
            "pytest>=7.0",
            "pytest-cov>=4.0",
            "pytest-xdist>=3.5",
            "ruff; " + TF2,
        ],
    },
)
