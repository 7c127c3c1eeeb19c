"""The tutorial notebook runs from top to bottom, and shows what it promises; progress is one line that changes."""

from __future__ import annotations

import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

import barymesh as bm
from barymesh.network import as_network
from barymesh.progress import in_notebook, is_interactive

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorials" / "notebook.ipynb"


def displays(cell):
    """The rich outputs of a cell, each as its kinds of content."""
    return [output.data for output in cell.outputs if output.output_type in ("display_data", "execute_result")]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    notebook = nbformat.read(TUTORIAL, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path_factory.mktemp("home")}}
    )
    # the interpreter of these tests, whatever kernels are installed for the user
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    return client.execute()


def cell_with(notebook, text):
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and text in cell.source]
    return cell


def test_the_notebook_is_stored_without_outputs():
    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


def test_nothing_is_printed_in_red(executed):
    for cell in executed.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text


def test_problem_result_and_network_are_shown_richly(executed):
    (problem,) = displays(cell_with(executed, "Problem.create"))
    assert "1 Gaussian, 1 Mixture, 1 Empirical" in problem["text/html"]
    (network,) = displays(cell_with(executed, 'as_network("erdos'))
    assert "data:image/png" in network["text/html"]
    result = displays(cell_with(executed, "weights=[1, 2, 1])\nresult"))[-1]
    assert "Converged" in result["text/html"]
    (history,) = displays(cell_with(executed, "result.history.plot()"))
    assert "image/png" in history
    together = displays(cell_with(executed, "together = "))[-1]
    assert together["text/html"].count("data:image/png") == 2


@pytest.mark.parametrize(
    ("text", "told"), [("weights=[1, 2, 1])\nresult", "iteration"), ("together = ", "activations")]
)
def test_progress_is_one_output_that_ends_with_the_last_figures(executed, text, told):
    progress, _result = displays(cell_with(executed, text))
    assert "<progress" in progress["text/html"]
    assert told in progress["text/plain"]
    assert "preparing" not in progress["text/plain"]


def test_here_is_no_notebook():
    assert not in_notebook()
    assert is_interactive() is sys.stderr.isatty()


def test_large_networks_are_told_without_a_picture():
    large = as_network("grid", 400)._repr_html_()
    assert "<img" not in large
    assert "760" in large
    small = as_network("path", 1)._repr_html_()
    assert "<img" in small


def test_a_problem_is_told_without_computing_it():
    problem = bm.Problem.create([bm.Lazy("not-there.csv"), bm.Lazy("nor-there.csv")], [[0.0], [1.0]], reg=0.1)
    assert "2 Lazy" in problem._repr_html_()
