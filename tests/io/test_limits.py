"""Files that would fill the memory, and what is not a file at all, are refused before they are read."""

from __future__ import annotations

import gc
import gzip
import io
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import barymesh as bm
from barymesh.errors import FileError
from barymesh.resources import memory
from tests.io.making import csv_file, parquet_file, png_file, refusal


@pytest.fixture
def little_memory(monkeypatch):
    """A machine on which a megabyte is free."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)


def packed_zeros(path, header, count):
    """A file of a few kilobytes that unpacks to this header and so many zeros."""
    with gzip.open(path, "wb") as file:
        file.write(header)
        for _ in range(count // 2**20):
            file.write(bytes(2**20))
    return path


def npz_bomb(path, numbers):
    np.savez_compressed(path, points=np.zeros((numbers, 2)))
    return path


def npz_with_a_bold_header(path):
    """A header that announces far more than there is."""
    inner = io.BytesIO()
    np.lib.format.write_array_header_1_0(inner, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("points.npy", inner.getvalue() + bytes(100))
    return path


def npz_with_a_negative_shape(path, numbers):
    """What one array seems to take away must not make room for another."""
    inner = io.BytesIO()
    np.lib.format.write_array_header_1_0(inner, {"descr": "<f8", "fortran_order": False, "shape": (-(10**12),)})
    np.savez_compressed(path, points=np.zeros(numbers))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("weights.npy", inner.getvalue())
    return path


def npz_with_a_long_header(path, length):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("points.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + b" " * length)
    return path


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: npz_with_a_negative_shape(path, 2**20), "shape"),
        (lambda path: npz_with_a_long_header(path, 2**23), "header"),
    ],
    ids=["shape", "header"],
)
def test_an_archive_with_a_false_header_is_refused_before_it_is_unpacked(tmp_path, make, said):
    path = make(tmp_path / "a.npz")
    gc.collect()
    tracemalloc.start()
    try:
        refusal(path, said, error=FileError)
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("little_memory")
def test_a_result_that_does_not_fit_into_memory_is_refused(tmp_path):
    with pytest.raises(FileError, match="memory is free"):
        bm.load(npz_bomb(tmp_path / "a.npz", 2**20))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "make",
    [
        lambda folder: packed_zeros(folder / "a.idx.gz", struct.pack(">BBBB2I", 0, 0, 8, 2, 4096, 4096), 2**24),
        lambda folder: npz_bomb(folder / "a.npz", 2**20),
        lambda folder: npz_with_a_bold_header(folder / "a.npz"),
        lambda folder: csv_file(folder, "1,2\n" * 2**17),
        lambda folder: parquet_file(folder, x=np.zeros(2**17)),
        lambda folder: png_file(folder, np.zeros((512, 512), np.uint8)),
    ],
    ids=["idx.gz", "npz", "header", "csv", "parquet", "png"],
)
def test_a_file_that_does_not_fit_into_memory_is_refused_before_it_is_unpacked(tmp_path, make):
    path = make(tmp_path)
    gc.collect()
    tracemalloc.start()
    try:
        refusal(path, "memory is free", error=FileError)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("little_memory")
def test_a_packed_file_is_not_unpacked_beyond_what_its_header_announces(tmp_path):
    path = packed_zeros(tmp_path / "a.idx.gz", struct.pack(">BBBB2I", 0, 0, 8, 2, 8, 8), 2**26)
    tracemalloc.start()
    try:
        refusal(path, "too long", error=FileError)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.npz", "a.png", "a.parquet", "a.idx", "a.idx.gz"])
def test_a_pipe_is_refused_and_never_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    refusal(tmp_path / name, "a pipe", error=FileError)


def edges(path):
    return bm.barycenter(np.eye(3), np.arange(3.0), reg=1, network=str(path))


def delays(path):
    return bm.barycenter(np.eye(3), np.arange(3.0), reg=1, network="cycle", delays=f"trace:seconds={path}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize(("name", "read"), [("a.npz", bm.load), ("a.csv", edges), ("a.txt", delays)])
def test_a_pipe_is_not_waited_for_wherever_a_file_is_read(tmp_path, name, read):
    os.mkfifo(tmp_path / name)
    with pytest.raises(bm.BarymeshError, match="a pipe"):
        read(tmp_path / name)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices here")
@pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.npz", "a.png", "a.parquet", "a.idx", "a.idx.gz"])
def test_a_device_is_refused(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/zero")
    refusal(tmp_path / name, "a device", error=FileError)
