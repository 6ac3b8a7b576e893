"""Stand-ins for what tensor2tensor imports, and these of its tests hardly use."""

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import test_util

PACKAGES = (
    "googleapiclient kfac mesh_tensorflow oauth2client scipy tensorflow_addons "
    "tensorflow_probability tf_slim"
).split()


class Anything(type):
    """The type of a class that has every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return make_class(name)


def make_class(name):
    """Make a class that can be subclassed, called, and used as a decorator."""
    return Anything(name, (), {"__init__": lambda self, *args, **kwargs: None})


class StandIn(types.ModuleType):
    """A module that has every attribute."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return make_class(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for each package of a list, and for its modules."""

    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{package}.") for package in PACKAGES):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        if module.__name__ == "tensorflow_probability":
            module.distributions = types.SimpleNamespace(
                Categorical=lambda logits: logits, kl_divergence=kl_divergence
            )


def kl_divergence(p_logits, q_logits):
    """Compute the Kullback-Leibler divergence of q from p, over the last axis."""
    p_log_probs = tf.nn.log_softmax(p_logits)
    difference = p_log_probs - tf.nn.log_softmax(q_logits)
    return tf.reduce_sum(tf.exp(p_log_probs) * difference, axis=-1)


def install():
    """Let the packages be imported, even those that are installed.

    In TensorFlow 2, tensor2tensor also finds what it needs of `tf.contrib` and of
    `tf.estimator`.
    """
    sys.meta_path.insert(0, Finder())
    if not tf.__version__.startswith("1."):
        name = "tensorflow.contrib.eager.python"
        sys.modules[name] = StandIn(name)
        sys.modules[name].tfe = types.SimpleNamespace(
            run_test_in_graph_and_eager_modes=test_util.run_in_graph_and_eager_modes
        )
        tf.estimator = StandIn("estimator")
        tf.estimator.ModeKeys = types.SimpleNamespace(
            TRAIN="train", EVAL="eval", PREDICT="infer"
        )


def skip_init(package):
    """Let the modules of a package be imported without running its __init__.py."""
    parent, name = package.rsplit(".", 1)
    module = types.ModuleType(package)
    module.__path__ = [
        os.path.join(path, name) for path in importlib.import_module(parent).__path__
    ]
    sys.modules[package] = module
