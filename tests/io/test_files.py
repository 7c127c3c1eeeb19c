"""Reading measures from real files: every kind, and what is said about files that are wrong."""

from __future__ import annotations

import gc
import gzip
import io
import os

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

import barymesh as bm
from barymesh.errors import FileError, MeasureError, OptionError
from tests.io.making import csv_file, idx_bytes, idx_file, normalised, parquet_file, png_file, refusal, shortened


@pytest.fixture
def leaks_show_here():
    """A file left open by the test is an error of this test, not of whichever runs when it is collected."""
    yield
    gc.collect()


# NumPy arrays


@pytest.mark.parametrize("shape", [(3, 7), (3, 4, 5)])
def test_one_npy_alone_is_a_stack_as_barycenter_takes_it(tmp_path, rng, shape):
    stack = rng.random(shape)
    np.save(tmp_path / "stack.npy", stack)
    read = bm.read_measures(tmp_path / "stack.npy")
    assert isinstance(read, np.ndarray)
    np.testing.assert_array_equal(read, stack)


def test_a_stack_in_a_file_gives_the_barycenter_of_the_array(tmp_path, rng):
    stack = rng.random((3, 6, 6))
    np.save(tmp_path / "stack.npy", stack)
    from_file = bm.barycenter(bm.read_measures(tmp_path / "stack.npy"), reg=0.05)
    np.testing.assert_array_equal(from_file.weights, bm.barycenter(stack, reg=0.05).weights)


def test_a_path_may_be_a_string_or_one_in_a_list(tmp_path, rng):
    stack = rng.random((3, 4, 5))
    np.save(tmp_path / "stack.npy", stack)
    np.testing.assert_array_equal(bm.read_measures(str(tmp_path / "stack.npy")), stack)
    np.testing.assert_array_equal(bm.read_measures([tmp_path / "stack.npy"]), stack)


def test_several_npy_are_one_measure_each_in_the_order_given(tmp_path, rng):
    clouds = rng.normal(size=(2, 8, 2))
    for name, cloud in zip("ba", clouds, strict=True):
        np.save(tmp_path / f"{name}.npy", cloud)
    read = bm.read_measures([tmp_path / "b.npy", tmp_path / "a.npy"])
    assert isinstance(read, list)
    np.testing.assert_array_equal(read, clouds)


def test_the_ending_of_a_name_may_be_in_capitals(tmp_path, rng):
    stack = rng.random((3, 4, 5))
    np.save(tmp_path / "stack.npy", stack)
    (tmp_path / "stack.npy").rename(tmp_path / "STACK.NPY")
    read = bm.read_measures(tmp_path / "STACK.NPY")
    assert isinstance(read, np.ndarray)
    np.testing.assert_array_equal(read, stack)


def test_npz_with_points_and_weights_is_one_weighted_measure(tmp_path, rng):
    points, weights = rng.normal(size=(5, 2)), rng.random(5)
    np.savez(tmp_path / "cloud.npz", points=points, weights=weights)
    (measure,) = bm.read_measures(tmp_path / "cloud.npz")
    np.testing.assert_array_equal(measure.points, points)
    np.testing.assert_allclose(measure.weights, normalised(weights))


def test_npz_with_points_alone_has_equal_weights(tmp_path, rng):
    np.savez(tmp_path / "cloud.npz", points=rng.normal(size=(4, 2)))
    (measure,) = bm.read_measures(tmp_path / "cloud.npz")
    np.testing.assert_allclose(measure.weights, 0.25)


def test_npz_with_several_arrays_is_a_measure_each(tmp_path, rng):
    first, second = rng.normal(size=(5, 2)), rng.normal(size=(7, 2))
    np.savez(tmp_path / "clouds.npz", first=first, second=second)
    read = bm.read_measures(tmp_path / "clouds.npz")
    assert len(read) == 2
    np.testing.assert_array_equal(read[0], first)
    np.testing.assert_array_equal(read[1], second)


def test_npz_with_weights_of_the_wrong_number(tmp_path, rng):
    np.savez(tmp_path / "cloud.npz", points=rng.normal(size=(5, 2)), weights=np.ones(4))
    refusal(tmp_path / "cloud.npz", "5 samples")


def test_npz_without_arrays(tmp_path):
    np.savez(tmp_path / "nothing.npz")
    refusal(tmp_path / "nothing.npz", "no array")


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [("samples", (3, 5, 2), bm.Empirical), ("image", (3, 5, 4), bm.Image), ("histogram", (3, 6), bm.Histogram)],
)
def test_kind_settles_what_a_stack_holds(tmp_path, rng, kind, shape, expected):
    np.save(tmp_path / "stack.npy", rng.random(shape))
    read = bm.read_measures(tmp_path / "stack.npy", kind=kind)
    assert [type(measure) for measure in read] == [expected] * 3


@pytest.mark.parametrize(
    ("kind", "expected"), [("samples", bm.Empirical), ("image", bm.Image), ("histogram", bm.Histogram)]
)
def test_kind_settles_what_each_of_several_files_and_arrays_is(tmp_path, rng, kind, expected):
    arrays = rng.random((2, 5, 5))
    np.save(tmp_path / "a.npy", arrays[0])
    np.savez(tmp_path / "b.npz", one=arrays[0], two=arrays[1])
    read = bm.read_measures([tmp_path / "a.npy", tmp_path / "b.npz"], kind=kind)
    assert [type(measure) for measure in read] == [expected] * 3


def test_a_kind_nobody_knows(tmp_path):
    with pytest.raises(OptionError, match=r"'picture'.*samples, image, histogram"):
        bm.read_measures(tmp_path, kind="picture")


def test_a_kind_that_does_not_fit_the_array(tmp_path):
    np.save(tmp_path / "a.npy", -np.ones((3, 3)))
    np.save(tmp_path / "b.npy", np.ones((3, 3)))
    with pytest.raises(MeasureError, match=r"a\.npy.*not negative"):
        bm.read_measures([tmp_path / "a.npy", tmp_path / "b.npy"], kind="image")
    refusal(tmp_path / "a.npy", "not negative", kind="image")


@pytest.mark.parametrize("kind", ["samples", "image", "histogram"])
def test_a_single_number_is_no_stack(tmp_path, kind):
    np.save(tmp_path / "number.npy", 5.0)
    refusal(tmp_path / "number.npy", kind=kind)


@pytest.mark.parametrize("kind", [None, "samples", "image"])
def test_npy_of_text_is_refused(tmp_path, kind):
    np.save(tmp_path / "words.npy", np.array(["left", "right"]))
    refusal(tmp_path / "words.npy", kind=kind)


def test_npz_of_text_is_refused(tmp_path):
    np.savez(tmp_path / "words.npz", points=np.array(["left", "right"]))
    refusal(tmp_path / "words.npz")


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_complex_numbers_are_refused_not_halved(tmp_path):
    np.save(tmp_path / "waves.npy", np.ones((2, 3)) + 1j)
    refusal(tmp_path / "waves.npy", kind="samples")


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_pickled_objects_are_never_loaded(tmp_path, save):
    """Object arrays are pickles, and a pickle can run any code: it must not."""
    bomb = np.array([Bomb(tmp_path / "exploded"), None], dtype=object)
    path = tmp_path / ("bomb.npy" if save is np.save else "bomb.npz")
    save(path, bomb, allow_pickle=True)
    refusal(path, error=FileError)
    assert not (tmp_path / "exploded").exists()


class Bomb:
    """Makes a folder when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.usefixtures("leaks_show_here")
def test_an_archive_called_npy_is_refused(tmp_path, rng):
    np.savez(tmp_path / "a.npz", a=rng.random(3))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    refusal(tmp_path / "a.npy", error=FileError)


def test_a_single_array_called_npz_is_refused(tmp_path, rng):
    np.save(tmp_path / "a.npy", rng.random(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    refusal(tmp_path / "a.npz", error=FileError)


# images


def test_png_of_8_bits(tmp_path, rng):
    pixels = rng.integers(0, 256, (5, 7), dtype=np.uint8)
    (measure,) = bm.read_measures(png_file(tmp_path, pixels))
    assert isinstance(measure, bm.Image)
    np.testing.assert_allclose(measure.pixels, normalised(pixels))


def test_png_of_16_bits_keeps_its_depth(tmp_path):
    pixels = np.array([[0, 1, 300], [256, 40000, 65535]], dtype=np.uint16)
    (measure,) = bm.read_measures(png_file(tmp_path, pixels))
    np.testing.assert_allclose(measure.pixels, normalised(pixels))


def test_png_in_colour_becomes_grey(tmp_path):
    colours = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 9, 9]]], dtype=np.uint8)
    (measure,) = bm.read_measures(png_file(tmp_path, colours))
    np.testing.assert_allclose(measure.pixels, normalised([[76, 150, 29, 9]]), atol=2e-3)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_invert_puts_the_mass_on_dark_pixels(tmp_path, kind):
    pixels = np.array([[250, 250, 0], [250, 100, 250]], dtype=kind)
    (measure,) = bm.read_measures(png_file(tmp_path, pixels), invert=True)
    np.testing.assert_allclose(measure.pixels, normalised([[0, 0, 250], [0, 150, 0]]))


def test_an_image_without_mass(tmp_path):
    refusal(png_file(tmp_path, np.zeros((3, 3), dtype=np.uint8)), "zero mass")
    refusal(png_file(tmp_path, np.full((3, 3), 255, dtype=np.uint8)), "zero mass", invert=True)


# IDX


@pytest.mark.parametrize("name", ["images-idx3-ubyte", "images-idx3-ubyte.gz", "images.idx", "images.idx.gz"])
def test_idx_is_a_stack_of_images(tmp_path, rng, name):
    stack = rng.integers(0, 256, (3, 4, 5))
    read = bm.read_measures(idx_file(tmp_path, stack, name))
    assert len(read) == 3
    for measure, pixels in zip(read, stack, strict=True):
        assert isinstance(measure, bm.Image)
        np.testing.assert_allclose(measure.pixels, normalised(pixels))


@pytest.mark.parametrize(("code", "kind"), [(0x09, ">i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")])
def test_idx_of_other_numbers(tmp_path, rng, code, kind):
    stack = rng.integers(0, 128, (2, 3, 3))
    read = bm.read_measures(idx_file(tmp_path, stack, code=code, kind=kind))
    np.testing.assert_allclose(read[1].pixels, normalised(stack[1]))


def test_idx_of_one_image(tmp_path, rng):
    pixels = rng.integers(0, 256, (4, 5))
    (measure,) = bm.read_measures(idx_file(tmp_path, pixels, "image-idx2-ubyte"))
    np.testing.assert_allclose(measure.pixels, normalised(pixels))


def test_idx_images_are_inverted_like_others(tmp_path):
    stack = np.array([[[250, 0], [100, 250]]])
    (measure,) = bm.read_measures(idx_file(tmp_path, stack), invert=True)
    np.testing.assert_allclose(measure.pixels, normalised([[0, 250], [150, 0]]))


def test_idx_labels_are_no_images(tmp_path):
    refusal(idx_file(tmp_path, np.arange(10), "labels-idx1-ubyte"), "labels", error=FileError)


def test_idx_with_a_black_image_says_which(tmp_path):
    refusal(idx_file(tmp_path, np.array([[[1, 2]], [[0, 0]]])), "image 1", "zero mass")


def test_idx_without_images(tmp_path):
    refusal(idx_file(tmp_path, np.zeros((0, 4, 4))))


def test_idx_truncated_in_its_data(tmp_path, rng):
    refusal(shortened(idx_file(tmp_path, rng.random((3, 4, 5)))), "truncated", "(3, 4, 5)", error=FileError)


@pytest.mark.parametrize("kept", [0, 1, 4, 7, 15])
def test_idx_truncated_in_its_header(tmp_path, rng, kept):
    path = idx_file(tmp_path, rng.random((3, 4, 5)))
    path.write_bytes(path.read_bytes()[:kept])
    refusal(path, "header", error=FileError)


def test_idx_that_is_too_long(tmp_path, rng):
    path = idx_file(tmp_path, rng.integers(0, 256, (3, 4, 5)))
    path.write_bytes(path.read_bytes() + b"more")
    refusal(path, "too long", "(3, 4, 5)", error=FileError)


@pytest.mark.parametrize("start", [b"\x89PNG", b"\0\0\x07\x03", b"\0\1\x08\x03"])
def test_idx_with_other_first_bytes(tmp_path, start):
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(start)
    refusal(path, "not an IDX file", error=FileError)


def test_idx_compressed_and_truncated_or_damaged(tmp_path, rng):
    path = idx_file(tmp_path, rng.integers(0, 256, (3, 9, 9)), "images-idx3-ubyte.gz")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refusal(path, error=FileError)
    path.write_bytes(b"plain text")
    refusal(path, error=FileError)
    path.write_bytes(whole[:10] + bytes([whole[10] ^ 0xFF]) + whole[11:])
    refusal(path, error=FileError)


# folders and what is not there


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    for name, value in (("c", 3), ("a", 1), ("b", 2)):
        csv_file(tmp_path, f"{value}\n", name=f"{name}.csv")
    assert [float(measure.points[0, 0]) for measure in bm.read_measures(tmp_path)] == [1, 2, 3]


def test_a_folder_may_hold_files_of_many_kinds_and_others_are_ignored(tmp_path, rng):
    csv_file(tmp_path, "1,2\n", name="a.csv")
    parquet_file(tmp_path, name="b.parquet", x=[1.0], y=[2.0])
    png_file(tmp_path, rng.integers(1, 9, (3, 3), dtype=np.uint8), name="c.png")
    idx_file(tmp_path, rng.integers(1, 9, (2, 3, 3)), name="d-idx3-ubyte")
    for ignored in (".hidden.csv", "notes.txt", "README"):
        (tmp_path / ignored).write_text("not a number\n")
    (tmp_path / "deeper").mkdir()
    csv_file(tmp_path / "deeper", "1,2\n")
    read = bm.read_measures(tmp_path)
    assert [type(measure).__name__ for measure in read] == ["Empirical", "Empirical", "Image", "Image", "Image"]


def test_one_npy_in_a_folder_is_one_measure(tmp_path, rng):
    np.save(tmp_path / "cloud.npy", rng.normal(size=(6, 2)))
    (measure,) = bm.read_measures(tmp_path)
    assert measure.shape == (6, 2)


def test_folders_and_files_mix_in_the_order_given(tmp_path):
    (tmp_path / "many").mkdir()
    for name, value in (("b", 2), ("a", 1)):
        csv_file(tmp_path / "many", f"{value}\n", name=f"{name}.csv")
    single = csv_file(tmp_path, "0\n", name="z.csv")
    read = bm.read_measures([single, tmp_path / "many", single])
    assert [float(measure.points[0, 0]) for measure in read] == [0, 1, 2, 0]


def test_a_bad_file_in_a_folder_is_named(tmp_path):
    csv_file(tmp_path, "1\n", name="a.csv")
    bad = csv_file(tmp_path, "x\nno\n", name="b.csv")
    with pytest.raises(FileError, match=r"b\.csv, line 2") as caught:
        bm.read_measures(tmp_path)
    assert str(bad) in str(caught.value)


@pytest.mark.parametrize("ignored", [None, "notes.txt", ".hidden.csv"])
def test_a_folder_with_nothing_to_read(tmp_path, ignored):
    if ignored:
        (tmp_path / ignored).write_text("1\n")
    refusal(tmp_path, "no file barymesh reads", error=FileError)


def test_no_files_at_all():
    with pytest.raises(FileError, match="No data files"):
        bm.read_measures([])


@pytest.mark.parametrize("name", ["missing.csv", "missing.npy", "missing", "missing-idx3-ubyte.gz"])
def test_a_file_that_is_not_there(tmp_path, name):
    refusal(tmp_path / name, "no file or folder", error=FileError)


@pytest.mark.parametrize("name", ["data.xyz", "data", "data.csv.gz"])
def test_a_file_of_unknown_kind_lists_the_known_ones(tmp_path, name):
    (tmp_path / name).write_text("1,2\n")
    refusal(tmp_path / name, ".csv", ".npy", ".png", "IDX", error=FileError)


# damage of any kind


def whole_file(kind):
    """The bytes of a small valid file, made in memory where the library allows it."""
    rng = np.random.default_rng(5)
    out, pixels = io.BytesIO(), rng.integers(1, 256, (8, 8), dtype=np.uint8)
    if kind == "a.npy":
        np.save(out, pixels)
    elif kind == "a.npz":
        np.savez_compressed(out, points=rng.normal(size=(9, 2)))
    elif kind == "a.png":
        Pillow.fromarray(pixels).save(out, "png")
    elif kind == "a.parquet":
        pyarrow.parquet.write_table(pyarrow.table({"x": rng.normal(size=9)}), out)
    else:
        raw = idx_bytes(pixels[None])
        out.write(gzip.compress(raw, mtime=0) if kind.endswith(".gz") else raw)
    return out.getvalue()


BINARY = ("a.npy", "a.npz", "a.png", "a.parquet", "a-idx3-ubyte", "a-idx3-ubyte.gz")


@pytest.mark.usefixtures("leaks_show_here")
@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.8])
def test_truncated_files_are_refused(tmp_path, kind, share):
    path = tmp_path / kind
    path.write_bytes(whole_file(kind))
    assert len(bm.read_measures(path)) > 0
    refusal(shortened(path, share), error=FileError)


@pytest.mark.usefixtures("leaks_show_here")
@pytest.mark.parametrize("kind", [kind for kind in BINARY if kind != "a.parquet"])
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_gets_past_the_errors_of_barymesh(tmp_path_factory, kind, data):
    """One byte changed anywhere: the file is read, or refused by name; nothing else comes out."""
    raw = bytearray(whole_file(kind))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("damaged") / kind
    path.write_bytes(raw)
    try:
        bm.read_measures(path)
    except bm.BarymeshError as error:
        assert str(path) in str(error)  # noqa: PT017
