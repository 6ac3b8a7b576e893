"""The public corpora: their addresses, checksums, files and splits.

The checksums were published by other projects:

* Multi30k: torchtext 0.18, `torchtext/datasets/multi30k.py`. The archive of the test
  set was repacked when the first server was shut down; this is the checksum of the new
  archive.
* IWSLT 2017: Hugging Face datasets, `datasets/iwslt2017/dataset_infos.json`
  (`iwslt2017-de-en`), with the size.
* WMT 2014: TensorFlow Datasets, `url_checksums/wmt14_translate.txt`, with the sizes.

The names of the files in the archives are those that these projects read. IWSLT 2014 is
missing, because only an MD5 checksum of its archive is published.
"""

from typing import Dict, NamedTuple, Tuple

MULTI30K = (
    "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/"
)
IWSLT17 = (
    "https://huggingface.co/datasets/iwslt2017/resolve/"
    "ebd7c60d9800c2a1be010a227e5f0a2363730f7a/data/2017-01-trnted/texts/de/en/"
)
TESTS_OF_IWSLT17 = ("tst2010", "tst2011", "tst2012", "tst2013", "tst2014", "tst2015")


# The name of a data folder that `download` writes → what its sentences are; the page
# translates it.
DOMAINS = {
    "sample": "sentences of a small grammar",
    "multi30k": "captions of pictures",
    "iwslt17": "talks",
    "wmt14": "news and parliamentary debates",
}


class Archive(NamedTuple):
    """A file to download."""

    url: str
    sha256: str
    max_bytes: int  # a longer file is an error; the exact size, if it is published


class PublicCorpus(NamedTuple):
    """A corpus: its archives, and the files in them that belong to each split."""

    description: str
    homepage: str  # names its authors and terms of use
    archives: Tuple[Archive, ...]
    # split → ((source file, target file), ...), concatenated in this order
    file_pairs: Dict[str, Tuple[Tuple[str, str], ...]]
    vocab_size: int


def _iwslt17_pair(name: str) -> Tuple[str, str]:
    return (f"IWSLT17.TED.{name}.de-en.de.xml", f"IWSLT17.TED.{name}.de-en.en.xml")


CORPORA = {
    "multi30k": PublicCorpus(
        "image captions, 29,000 pairs (task 1 of WMT 2016, test_2016_flickr)",
        "https://github.com/multi30k/dataset",
        (
            Archive(
                MULTI30K + "training.tar.gz",
                "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
                2_000_000,
            ),
            Archive(
                MULTI30K + "validation.tar.gz",
                "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
                200_000,
            ),
            Archive(
                MULTI30K + "mmt16_task1_test.tar.gz",
                "6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36",
                400_000,
            ),
        ),
        {
            "train": (("train.de", "train.en"),),
            "dev": (("val.de", "val.en"),),
            "test": (("test.de", "test.en"),),
        },
        vocab_size=8000,
    ),
    "iwslt17": PublicCorpus(
        "TED talks, 206,112 pairs (IWSLT 2017, dev2010, tst2010 … tst2015)",
        "https://sites.google.com/site/iwsltevaluation2017/TED-tasks",
        (
            Archive(
                IWSLT17 + "de-en.tgz",
                "ebcd53c53c8df742437e3a0fb964772e78764c3f6d4e38df0b6a2f71abc3a8b4",
                16_751_373,
            ),
        ),
        {
            "train": (("train.tags.de-en.de", "train.tags.de-en.en"),),
            "dev": (_iwslt17_pair("dev2010"),),
            "test": tuple(_iwslt17_pair(name) for name in TESTS_OF_IWSLT17),
        },
        vocab_size=16000,
    ),
    "wmt14": PublicCorpus(
        "news, the web, parliament, 4.5 million pairs (newstest2013, newstest2014)",
        "https://www.statmt.org/wmt14/translation-task.html",
        (
            Archive(
                "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
                "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
                657_632_379,
            ),
            Archive(
                "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
                "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
                918_311_367,
            ),
            Archive(
                "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
                "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
                80_418_416,
            ),
            Archive(
                "http://data.statmt.org/wmt19/translation-task/dev.tgz",
                "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
                38_654_961,
            ),
        ),
        {
            "train": (
                ("europarl-v7.de-en.de", "europarl-v7.de-en.en"),
                ("commoncrawl.de-en.de", "commoncrawl.de-en.en"),
                ("news-commentary-v9.de-en.de", "news-commentary-v9.de-en.en"),
            ),
            "dev": (("newstest2013.de", "newstest2013.en"),),
            "test": (("newstest2014-deen-src.de.sgm", "newstest2014-deen-ref.en.sgm"),),
        },
        vocab_size=37000,
    ),
}
