"""Digits from openml.org, which is played here, and their cache."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
from urllib.error import URLError

import numpy as np
import pytest

from barymesh.datasets import mnist as source_of_mnist
from barymesh.datasets.mnist import COUNTS, TOTAL, cache_folder, mnist
from barymesh.errors import FileError, OptionError
from tests.datasets.files import REAL_DOWNLOAD, WAYS, expected, like_mnist, refusal, without


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
