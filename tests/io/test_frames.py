"""Data frames of several libraries become the same measures, and so do tables in files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import barymesh as bm
from barymesh.errors import FileError, MeasureError, OptionError, WeightError
from tests.cli.calling import call

COLUMNS = {
    "site": ["south", "north", "south", "north", "south"],
    "age": [31, 64, 45, 50, 29],
    "bmi": [22.5, 27.1, 24.0, 30.2, 19.9],
    "count": [1.0, 2.0, 3.0, 4.0, 0.0],
    "name": list("abcde"),
}
FRAMES = {
    "pandas": pd.DataFrame,
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "arrow": pa.table,
}


@pytest.fixture(params=FRAMES)
def make(request):
    return FRAMES[request.param]


def test_every_group_is_a_measure(make):
    measures = bm.from_dataframe(make(COLUMNS), by="site", columns=["bmi", "age"], weight="count")
    assert [measure.label for measure in measures] == ["south", "north"]
    assert [measure.records for measure in measures] == [3, 2]
    np.testing.assert_array_equal(measures[0].points, [[22.5, 31], [24.0, 45], [19.9, 29]])
    np.testing.assert_allclose(measures[0].weights, [0.25, 0.75, 0])
    assert measures[0].names == ("bmi", "age")
    numeric = {name: COLUMNS[name] for name in ("age", "site", "bmi")}
    assert bm.from_dataframe(make(numeric), "site")[1].names == ("age", "bmi")


def test_plots_have_names_and_units(make):
    df = make({**COLUMNS, "bmi": [22.5, 27.1, 24.0, 30.2, 19.9]})
    measures = bm.from_dataframe(df, "site", ["age", "bmi"], units={"age": "years"})
    result = bm.barycenter(measures, reg=0.05, relative_reg=True, weights="size", tol=1e-3)
    assert result.labels == ("south", "north")
    np.testing.assert_allclose(result.problem.weights, [0.6, 0.4])
    axes = result.plot().axes[0]
    assert {axes.get_xlabel(), axes.get_ylabel()} == {"age (years)", "bmi"}
    np.testing.assert_allclose(result.map("north")([[64, 27.1]]), result.map(1)([[64, 27.1]]))


def test_frames_know_their_units():
    frame = pd.DataFrame(COLUMNS)
    frame.attrs["units"] = {"age": "years", "bmi": "kg/m²"}
    assert bm.from_dataframe(frame, "site", ["age", "bmi"])[0].names == ("age (years)", "bmi (kg/m²)")
    fields = [pa.field("site", pa.string()), pa.field("age", pa.int64(), metadata={"unit": "years"})]
    table = pa.table({name: COLUMNS[name] for name in ("site", "age")}, schema=pa.schema(fields))
    assert bm.from_dataframe(table, "site")[0].names == ("age (years)",)


@pytest.mark.parametrize(
    ("change", "arguments", "error", "text"),
    [
        ({}, {"by": "place"}, OptionError, "no column 'place'. Its columns are site, age"),
        ({}, {"columns": ["age", "age"]}, OptionError, "every column once"),
        ({}, {"columns": []}, OptionError, "at least one"),
        ({}, {"columns": ["age", "name"]}, MeasureError, "'name' is of type String"),
        ({"age": [31, None, 45, 50, 29]}, {}, MeasureError, "'age' has 1 values that are missing.*row 1"),
        ({"site": ["a", None, "a", "b", "b"]}, {}, MeasureError, "'site' has 1 missing"),
        ({"count": [-1.0, 2, 3, 4, 5]}, {"weight": "count"}, MeasureError, "Group 'south'"),
    ],
)
def test_what_is_wrong_with_a_frame_is_named(make, change, arguments, error, text):
    with pytest.raises(error, match=text):
        bm.from_dataframe(make({**COLUMNS, **change}), **{"by": "site", "columns": ["age", "bmi"], **arguments})


def test_no_frame_and_no_rows():
    with pytest.raises(MeasureError, match="list is no data frame"):
        bm.from_dataframe([1, 2], by="site")
    with pytest.raises(MeasureError, match="no rows"):
        bm.from_dataframe(pd.DataFrame(COLUMNS)[:0], by="site", columns="age")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_in_files_are_split_the_same_way(tmp_path, ending):
    file, frame = tmp_path / f"data.{ending}", pd.DataFrame(COLUMNS)
    frame.to_csv(file, index=False) if ending == "csv" else pl.DataFrame(COLUMNS).write_parquet(file)
    expected = bm.from_dataframe(frame, "site", ["age", "bmi"], "count")
    found = bm.read_measures(file, by="site", columns=["age", "bmi"], weight_column="count")
    for one, other in zip(found, expected, strict=True):
        assert (one.label, one.names) == (other.label, other.names)
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_array_equal(one.weights, other.weights)
    with pytest.raises(OptionError, match="'site' is chosen to name"):
        bm.read_measures(file, by="site", columns=["site", "age"])
    with pytest.raises(FileError, match="no column 'place'"):
        bm.read_measures(file, by="place", columns=["age"])


def test_the_command_line_takes_one_table_of_all_groups(tmp_path):
    file = tmp_path / "data.csv"
    pd.DataFrame(COLUMNS).to_csv(file, index=False)
    flags = ("--by", "site", "--columns", "age,bmi", "--reg", "0.1", "--relative", "-o", tmp_path / "out", "--json")
    done = call("barycenter", file, *flags, "--weights", "size")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["measures"] == 2
    result = bm.load(tmp_path / "out" / "result.npz")
    assert result.labels == ("south", "north")
    assert result.support.names == ("age", "bmi")
    np.testing.assert_allclose(result.problem.weights, [0.6, 0.4])
    wrong = call("barycenter", file, *flags, "--weights", "sizes")
    assert wrong.exit_code != 0
    assert "'size'" in wrong.stdout + wrong.stderr
    (tmp_path / "hole.csv").write_text("site,age\nnorth,3\n,4\n")
    empty = call("barycenter", tmp_path / "hole.csv", "--by", "site", "--reg", "1", "-o", tmp_path / "out", "--json")
    assert "line 3, site: an empty cell" in empty.stdout + empty.stderr


def test_size_counts_records():
    one, two = np.zeros((2, 1)), np.ones((6, 1))
    result = bm.barycenter([one, two], np.linspace(-1, 2, 9), reg=0.5, weights="size")
    np.testing.assert_allclose(result.problem.weights, [0.25, 0.75])
    network = {"network": "complete", "delays": "constant:seconds=0.1"}
    nodes = bm.barycenter([one, two], np.linspace(-1, 2, 9), reg=0.5, weights="size", **network)
    np.testing.assert_allclose(nodes.weights, result.weights, atol=1e-5)
    with pytest.raises(WeightError, match="measure 1 has none to count: it is a Gaussian"):
        bm.barycenter([one, bm.Gaussian(0, 1)], reg=0.5, weights="size")
    with pytest.raises(WeightError, match="weights is 'number'; give one number for each measure, or 'size'"):
        bm.barycenter([one, two], reg=0.5, weights="number")
