"""CSV and Parquet files: columns that are asked for, and errors that quote nobody's data."""

from __future__ import annotations

import decimal
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import FileError, MissingPackageError, OptionError
from barymesh.io.output import write_outputs
from tests.io.making import csv_file, normalised, parquet_file, refusal, shortened


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


@pytest.mark.parametrize("two", [2, "2"])
def test_a_number_of_a_column_is_not_looked_for_in_the_first_row(tmp_path, two):
    """The command line gives numbers as text, and the first sample may hold the same number."""
    path = csv_file(tmp_path, "1,2\n3,4\n")
    (measure,) = bm.read_measures(path, columns=[two])
    np.testing.assert_array_equal(measure.points, [[2], [4]])
    (measure,) = bm.read_measures(path, weight_column=two)
    np.testing.assert_array_equal(measure.points, [[1], [3]])
    np.testing.assert_allclose(measure.weights, [1 / 3, 2 / 3])


@pytest.mark.parametrize(
    "options", [{"columns": ["x", 1]}, {"columns": ["1", "x"]}, {"columns": ["x"], "weight_column": 1}]
)
def test_one_column_by_its_name_and_by_its_number(tmp_path, options):
    refusal(csv_file(tmp_path, "x,y\n1,2\n"), "the same", error=FileError, **options)
    refusal(parquet_file(tmp_path, x=[1], y=[2]), "the same", error=FileError, **options)


@pytest.mark.parametrize("header", [",x,y", '"","x","y"', "x,y,"])
def test_a_column_without_a_name_is_no_coordinate_unless_it_is_chosen(tmp_path, header):
    """pandas and R number the rows in such a column."""
    path = csv_file(tmp_path, f"{header}\n0,1,2\n1,3,4\n")
    refusal(path, "without a name", "--columns", error=FileError)
    (measure,) = bm.read_measures(path, columns=["x", "y"])
    assert measure.names == ("x", "y")
    (measure,) = bm.read_measures(path, columns=[1, 2, 3])
    np.testing.assert_array_equal(measure.points, [[0, 1, 2], [1, 3, 4]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ["9" * 5000]}, ["no column"]),
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
        ("x|y\n1|2\n", "Bars?"),
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
        csv_file(folder, f"{secret};40;41\nJones;42;43\n", name="4.csv"),
        csv_file(folder, f"{secret}\t40\nJones\t42\n", name="5.csv"),
        csv_file(folder, f"{secret}|40\nJones|42\n", name="6.csv"),
        csv_file(folder, f"{secret} 40\nJones 42\n", name="7.csv"),
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


def test_parquet_with_numbers_of_every_type(tmp_path):
    columns = {
        "a": pyarrow.array([1, 2], pyarrow.int64()),
        "b": pyarrow.array([1, 2], pyarrow.uint8()),
        "c": pyarrow.array([1.0, 2.0], pyarrow.float32()),
        "d": pyarrow.array([True, False]),
        "e": pyarrow.array([decimal.Decimal("1.5"), decimal.Decimal("2.5")]),
    }
    (measure,) = bm.read_measures(parquet_file(tmp_path, **columns))
    np.testing.assert_array_equal(measure.points, [[1, 1, 1, 1, 1.5], [2, 2, 2, 0, 2.5]])


def test_parquet_with_two_columns_of_one_name(tmp_path):
    table = pyarrow.table([pyarrow.array([1.0]), pyarrow.array([2.0])], names=["x", "x"])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    refusal(tmp_path / "a.parquet", "2 columns called 'x'", error=FileError)


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
    refusal(path, "barymesh[parquet]", error=MissingPackageError)


def test_the_table_of_weights_has_no_two_columns_of_one_name(tmp_path):
    measure = bm.Empirical([[0.0, 0.0], [1.0, 1.0]], names=["mass", "weight"])
    write_outputs(bm.barycenter([measure, measure], reg=1.0), tmp_path)
    header = (tmp_path / "weights.csv").read_text().splitlines()[0].split(",")
    assert header[:2] == ["mass", "weight"]
    assert len(set(header)) == 3
