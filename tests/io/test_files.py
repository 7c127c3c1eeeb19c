"""Reading measures from real files: every kind, and what is said about files that are wrong."""

from __future__ import annotations

import gc
import gzip
import io
import os
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

import barymesh as bm
from barymesh.errors import FileError, MeasureError, OptionError
from barymesh.resources import memory


@pytest.fixture
def leaks_show_here():
    """A file left open by the test is an error of this test, not of whichever runs when it is collected."""
    yield
    gc.collect()


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


# tables


def test_csv_without_a_header(tmp_path):
    (measure,) = bm.read_measures(csv_file(tmp_path, "1,2\n3,4.5\n-5e-1,6\n"))
    np.testing.assert_array_equal(measure.points, [[1, 2], [3, 4.5], [-0.5, 6]])
    np.testing.assert_allclose(measure.weights, 1 / 3)


def test_csv_with_a_header(tmp_path):
    (measure,) = bm.read_measures(csv_file(tmp_path, "height, width\n1,2\n3,4\n"))
    np.testing.assert_array_equal(measure.points, [[1, 2], [3, 4]])


@pytest.mark.parametrize("column", ["heft", 2, "2"])
def test_csv_with_weights_in_a_column_that_is_asked_for(tmp_path, column):
    (measure,) = bm.read_measures(csv_file(tmp_path, "x,heft,y\n1,3,2\n3,1,4\n"), weight_column=column)
    np.testing.assert_array_equal(measure.points, [[1, 2], [3, 4]])
    np.testing.assert_allclose(measure.weights, [0.75, 0.25])
    assert measure.names == ("x", "y")


@pytest.mark.parametrize("name", ["weight", "Weights", "mass"])
def test_a_column_is_mass_only_if_it_is_asked_for(tmp_path, name):
    """Height and weight of people are two coordinates."""
    for path in (
        csv_file(tmp_path, f"height,{name}\n180,70\n170,65\n"),
        parquet_file(tmp_path, **{"height": [180.0, 170.0], name: [70, 65]}),
    ):
        (measure,) = bm.read_measures(path)
        np.testing.assert_array_equal(measure.points, [[180, 70], [170, 65]])
        np.testing.assert_allclose(measure.weights, 0.5)
        assert measure.names == ("height", name)


@pytest.mark.parametrize("columns", [["age", "height"], [4, 2], ["4", "height"], ("age", 2)])
def test_columns_are_chosen_and_others_may_hold_text(tmp_path, columns):
    text = "patient,height,weight,age\nSmith,180,70,41\nJones,170,65,58\n"
    table = {"patient": ["Smith", "Jones"], "height": [180, 170], "weight": [70.5, 65.0], "age": [41, 58]}
    for path in (csv_file(tmp_path, text), parquet_file(tmp_path, **table)):
        (measure,) = bm.read_measures(path, columns=columns)
        np.testing.assert_array_equal(measure.points, [[41, 180], [58, 170]])
        assert measure.names == ("age", "height")


def test_columns_of_a_table_without_names_are_numbered(tmp_path):
    (measure,) = bm.read_measures(csv_file(tmp_path, "Smith,1,2\nJones,3,4\n"), columns=[3], weight_column=2)
    np.testing.assert_array_equal(measure.points, [[2], [4]])
    np.testing.assert_allclose(measure.weights, [0.25, 0.75])
    assert measure.names is None


def test_a_header_with_numbers_in_it_is_known_by_a_name_that_is_asked_for(tmp_path):
    (measure,) = bm.read_measures(csv_file(tmp_path, "country,2019,2020\nIT,1,2\nFR,3,4\n"), columns=["2019", "2020"])
    np.testing.assert_array_equal(measure.points, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ["depth"]}, ["no column 'depth'", "x, y, z"]),
        ({"weight_column": "depth"}, ["no column 'depth'", "x, y, z"]),
        ({"columns": [4]}, ["no column 4", "3 columns"]),
        ({"columns": [-1]}, ["no column -1"]),
    ],
)
def test_a_column_that_is_not_there(tmp_path, options, said):
    refusal(csv_file(tmp_path, "x,y,z\n1,2,3\n"), *said, error=FileError, **options)
    refusal(parquet_file(tmp_path, x=[1], y=[2], z=[3]), *said, error=FileError, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": []}, "at least one"),
        ({"columns": ["x", "x"]}, "once"),
        ({"columns": ["x"], "weight_column": "x"}, "both"),
        ({"columns": [0]}, "counted from 1"),
        ({"columns": [True]}, "counted from 1"),
        ({"weight_column": 1.5}, "no column"),
    ],
)
def test_a_choice_of_columns_that_means_nothing(tmp_path, options, said):
    with pytest.raises(OptionError, match=said):
        bm.read_measures(csv_file(tmp_path, "x,y\n1,2\n"), **options)


def test_two_columns_of_one_name(tmp_path):
    path = csv_file(tmp_path, "x,y,y\n1,2,3\n")
    refusal(path, "2 columns called 'y'", "number", error=FileError, columns=["y"])
    (measure,) = bm.read_measures(path, columns=["x", 3])
    np.testing.assert_array_equal(measure.points, [[1, 3]])


def test_a_table_of_weights_only(tmp_path):
    refusal(csv_file(tmp_path, "weight\n1\n2\n"), "no columns of coordinates", weight_column="weight")
    refusal(parquet_file(tmp_path, weight=[1.0]), "no columns of coordinates", weight_column="weight")


@pytest.mark.parametrize(("cell", "said"), [("-1", "negative"), ("nan", "NaN"), ("inf", "infinity")])
def test_a_bad_weight_is_named_by_line_and_column(tmp_path, cell, said):
    path = csv_file(tmp_path, f"x,heft\n1,1\n2,{cell}\n")
    refusal(path, "line 3, heft", said, error=FileError, weight_column="heft")
    path = parquet_file(tmp_path, x=[1.0, 2.0], heft=[1.0, float(cell)])
    refusal(path, "row 2, heft", said, error=FileError, weight_column="heft")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x;y\n1;2\n", "Semicolons?"),
        ("1,5;2,5\n3,5;4,5\n", "Semicolons?"),
        ("1;2\n3;4\n", None),
        ("x\ty\n1\t2\n", "Tabs?"),
        ("x,y\n1,2\n3;4\n", "Semicolons?"),
    ],
)
def test_other_separators_are_named(tmp_path, text, name):
    message = refusal(csv_file(tmp_path, text))
    assert name is None or name in message


@pytest.mark.parametrize(
    "text", ["x,y\n\n1,2\n\n \n , \n3,4\n\n", "\ufeffx,y\n1,2\n3,4\n", "x,y\r\n1,2\r\n3,4", '"x","y"\n"1","2"\n3,4\n']
)
def test_blank_lines_marks_quotes_and_line_ends_do_not_matter(tmp_path, text):
    (measure,) = bm.read_measures(csv_file(tmp_path, text))
    np.testing.assert_array_equal(measure.points, [[1, 2], [3, 4]])


def test_a_mark_before_a_number_does_not_make_it_a_header(tmp_path):
    (measure,) = bm.read_measures(csv_file(tmp_path, "\ufeff1,2\n3,4\n"))
    assert measure.points.shape == (2, 2)


@pytest.mark.parametrize("last", ["5", "5,6,7"])
def test_a_row_of_the_wrong_length_is_named_by_its_line(tmp_path, last):
    refusal(csv_file(tmp_path, f"x,y\n1,2\n\n3,4\n{last}\n"), "line 5", "2 are expected", error=FileError)


def test_a_cell_that_is_no_number_is_named_by_line_and_column(tmp_path):
    refusal(csv_file(tmp_path, "x,depth\n1,2\n3,deep\n"), "line 3", "depth", error=FileError)
    refusal(csv_file(tmp_path, "1,2\n3,deep\n"), "line 2", "column 2", error=FileError)
    refusal(csv_file(tmp_path, "x,depth\n1,\n"), "line 2", "depth", error=FileError)


@given(letters=st.text(st.sampled_from("abcdefg \\'-ßé"), min_size=3))
def test_the_content_of_a_cell_is_never_quoted(tmp_path_factory, letters):
    """It may be the name of a patient."""
    folder, secret = tmp_path_factory.mktemp("private"), f"Zq{letters}"
    for path in (
        csv_file(folder, f"patient,age\n{secret},40\n", name="1.csv"),
        csv_file(folder, f"1,2\n{secret},40\n", name="2.csv"),
        csv_file(folder, f"patient,age\n40,41,{secret}\n", name="3.csv"),
        parquet_file(folder, patient=[secret], age=[40]),
    ):
        assert "Zq" not in refusal(path).replace(str(folder), "")


def test_lines_are_counted_as_an_editor_counts_them(tmp_path):
    """A quoted line break in the header moves everything below it down by one."""
    refusal(csv_file(tmp_path, '"x\n(cm)",y\n1,2\n3,bad\n'), "line 4", error=FileError)


def test_a_damaged_first_row_is_not_taken_for_a_header(tmp_path):
    """A header has no numbers; a row with some is data gone wrong, and must not vanish."""
    refusal(csv_file(tmp_path, "1.5,oops\n2,3\n4,5\n"), "line 1", "column 2", error=FileError)


@pytest.mark.parametrize("cell", ["nan", "NaN", "NA", "null", "inf", "-inf", "1e999"])
def test_missing_and_infinite_cells_are_refused(tmp_path, cell):
    said = "not a number" if cell in ("NA", "null") else "NaN or infinity"
    refusal(csv_file(tmp_path, f"x,y\n1,2\n3,{cell}\n"), "line 3, y", said, error=FileError)


@pytest.mark.parametrize("text", ["", "\n\n", " , \n", "\ufeff"])
def test_a_csv_without_rows(tmp_path, text):
    refusal(csv_file(tmp_path, text), "no rows")


def test_a_csv_with_a_header_only(tmp_path):
    refusal(csv_file(tmp_path, "x,y\n"), "empty")


def test_a_csv_that_is_no_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00\x01")
    refusal(tmp_path / "a.csv", "UTF-8", error=FileError)


def test_a_csv_with_an_endless_cell(tmp_path):
    """The csv module gives up at 131072 characters with an error of its own."""
    refusal(csv_file(tmp_path, "x\n" + "1" * 200_000 + "\n"))


def test_a_csv_whose_name_looks_like_idx_is_still_a_csv(tmp_path):
    (measure,) = bm.read_measures(csv_file(tmp_path, "1,2\n3,4\n", name="patient-idx7.csv"))
    np.testing.assert_array_equal(measure.points, [[1, 2], [3, 4]])


def test_parquet_is_read_as_csv_is(tmp_path, rng):
    x, y, weight = rng.normal(size=4), np.arange(4), rng.random(4)
    (measure,) = bm.read_measures(parquet_file(tmp_path, x=x, weight=weight, y=y), weight_column="weight")
    np.testing.assert_array_equal(measure.points, np.stack([x, y], axis=1))
    np.testing.assert_allclose(measure.weights, normalised(weight))


def test_parquet_with_a_text_column(tmp_path):
    refusal(parquet_file(tmp_path, x=[1.0, 2.0], place=["left", "right"]), "place", "string", error=FileError)


def test_parquet_with_missing_values(tmp_path):
    refusal(parquet_file(tmp_path, x=[1, None, 3]), "NaN")


def test_parquet_without_rows_or_columns(tmp_path):
    refusal(parquet_file(tmp_path, x=pyarrow.array([], pyarrow.float64())), "empty")
    refusal(parquet_file(tmp_path), "no columns")


def test_parquet_damaged(tmp_path):
    refusal(shortened(parquet_file(tmp_path, x=[1.0, 2.0])), "damaged", error=FileError)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = parquet_file(tmp_path, x=[1.0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refusal(path, "barymesh[parquet]", error=FileError)


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


# files that would fill the memory, and what is not a file at all


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


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices here")
@pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.npz", "a.png", "a.parquet", "a.idx", "a.idx.gz"])
def test_a_device_is_refused(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/zero")
    refusal(tmp_path / name, "a device", error=FileError)
