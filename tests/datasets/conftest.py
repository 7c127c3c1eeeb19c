"""No test needs a network, and none finds what an earlier one has downloaded."""

from __future__ import annotations

import pytest

from barymesh.datasets import mnist as source_of_mnist
from barymesh.datasets.mnist import COUNTS, cache_folder, mnist
from tests.datasets.files import like_mnist


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """A machine without MNIST, whose cache is empty; a test that would download fails."""
    monkeypatch.delenv("BARYMESH_MNIST", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("BARYMESH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source_of_mnist, "_download", lambda: pytest.fail("a test wanted to download"))


@pytest.fixture
def whole_set(monkeypatch):
    """A download with a tenth of MNIST, which then counts as all of it, to keep the tests short."""
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
