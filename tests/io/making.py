"""Small files of every kind, for tests that read them."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image as Pillow

import barymesh as bm


def refusal(path, *said, error=bm.BarymeshError, **options):
    """Reading fails with an error of barymesh that names the file and says all of ``said``."""
    with pytest.raises(error) as caught:
        bm.read_measures(path, **options)
    message = str(caught.value)
    for part in (str(path), *said):
        assert part in message
    return message


def csv_file(folder, text, name="data.csv"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def parquet_file(folder, name="data.parquet", **columns):
    path = folder / name
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def png_file(folder, pixels, name="picture.png"):
    path = folder / name
    Pillow.fromarray(pixels).save(path)
    return path


def idx_bytes(array, code=0x08, kind=">u1"):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(kind).tobytes()


def idx_file(folder, array, name="images-idx3-ubyte", **kind):
    path, raw = folder / name, idx_bytes(array, **kind)
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def shortened(path, share=0.5):
    """The file cut off after this share of its bytes."""
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    return path


def normalised(values):
    values = np.asarray(values, dtype=float)
    return values / values.sum()
