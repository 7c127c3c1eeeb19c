"""The model of options: one place for names, defaults, checks and where each applies."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpydoc.docscrape import FunctionDoc

import barymesh as bm
from barymesh.errors import BarymeshError, OptionError
from barymesh.options import ENGINES, EXACT, Options, check_places
from barymesh.options.model import documentation, first_sentence, is_needed, read_value

FIELDS = Options.fields()
PLACES = (EXACT, *ENGINES)
PAIR = [bm.Gaussian(0, 1), bm.Gaussian(1, 1)]
# values for options whose default is None, or that have none
EXAMPLES: dict[str, Any] = {
    "measures": PAIR,
    "support": "20:-3:3",
    "reg": 0.5,
    "weights": [1, 2],
    "network": "path",
    "start": bm.barycenter(PAIR, [0.0, 1.0], reg=1),
    "step": 0.1,
    "batch": 3,
    "checkpoint": "run.npz",
    "workers": 2,
    "address": "10.0.0.1:6379",
    "folder": "state",
    "callback": print,
    "progress": False,
}


class ReachedTheWorkError(Exception):
    """The options were accepted."""


@pytest.fixture
def work_is_not_done(monkeypatch):
    def reached(**options):
        raise ReachedTheWorkError

    monkeypatch.setattr("barymesh.api.Problem.create", reached)


def value_for(name):
    return EXAMPLES.get(name, FIELDS[name].default)


# the signature and its documentation


def test_barycenter_has_the_signature_of_the_model():
    parameters = inspect.signature(bm.barycenter).parameters
    assert list(parameters) == list(FIELDS)
    assert set(parameters) == {one.name for one in fields(Options)}
    for name, one in FIELDS.items():
        assert parameters[name].default is (inspect.Parameter.empty if is_needed(one) else one.default)
    assert [one.name for one in parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD] == ["measures", "support"]


def test_every_option_is_documented_in_the_docstring():
    described = FunctionDoc(bm.barycenter)["Parameters"]
    assert [one.name for one in described] == list(FIELDS)
    assert all(one.desc for one in described)
    assert "{options}" not in (bm.barycenter.__doc__ or "")


@pytest.mark.parametrize("name", [name for name, one in FIELDS.items() if one.default is not None])
def test_the_documented_default_is_the_default(name):
    one = FIELDS[name]
    (entry,) = [entry for entry in FunctionDoc(bm.barycenter)["Parameters"] if entry.name == name]
    said = re.search(r"default=(.+)$", entry.type)
    if one.default in ((), None) or is_needed(one):
        assert said is None
    else:
        assert said is not None, entry.type
        assert ast.literal_eval(said[1]) == one.default


def test_a_problem_is_created_with_the_same_options():
    parameters = inspect.signature(bm.Problem.create).parameters
    made = Options(PAIR, reg=1).problem_arguments()
    assert set(parameters) == set(made)
    for name, parameter in parameters.items():
        if not is_needed(FIELDS[name]):
            assert parameter.default == FIELDS[name].default


def test_the_first_sentence_is_short_and_plain():
    for name, text in documentation(Options).items():
        sentence = first_sentence(text)
        assert sentence.endswith("."), name
        assert "``" not in sentence
        assert text.replace("``", "").startswith(sentence[:-1])


def test_barycenter_is_an_ordinary_function():
    assert pickle.loads(pickle.dumps(bm.barycenter)) is bm.barycenter
    assert bm.barycenter.__name__ == bm.barycenter.__qualname__ == "barycenter"
    assert bm.barycenter.__module__ == "barymesh.api"
    assert "options.output" in inspect.getsource(bm.barycenter)


def test_options_travel_to_other_processes():
    options = Options(PAIR, reg=0.5, network="path", delays="uniform:low=0.1,high=0.2", faults=["loss:probability=0.1"])
    again = pickle.loads(pickle.dumps(options))
    assert (again.reg, again.delays, again.faults, again.method) == (0.5, options.delays, options.faults, "sinkhorn")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((PAIR,), {"reg": 1, "regg": 2}, r"no option 'regg'\. Did you mean 'reg'\?"),
        ((PAIR,), {"reg": 1, "frugal": True}, "no option 'frugal'"),
        ((PAIR,), {}, "'reg'"),
        ((), {"reg": 1}, "'measures'"),
        ((PAIR, None, 0.1), {}, "only measures and support"),
        ((PAIR, None), {"reg": 1, "support": None}, "support"),
    ],
)
def test_a_call_that_does_not_fit_names_the_function_and_the_mistake(arguments, options, said):
    with pytest.raises(TypeError, match=rf"^barycenter\(\): .*{said}"):
        bm.barycenter(*arguments, **options)


# where options apply


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [name for name in FIELDS if name not in ("measures", "reg", "network")])
def test_an_option_is_taken_where_it_applies_and_refused_elsewhere(name, place, work_is_not_done):
    options = {"reg": 1, name: value_for(name)}
    if place != EXACT:
        options |= {"network": "path", "engine": place}
    if name == "resume":
        options |= {"resume": True, "checkpoint": "run.npz"} if place == "simulation" else {}
    applies = FIELDS[name].metadata["places"] or PLACES
    if place in applies:
        with pytest.raises(ReachedTheWorkError):
            bm.barycenter(PAIR, **options)
        return
    with pytest.raises(OptionError) as caught:
        bm.barycenter(PAIR, **options)
    assert caught.value.option == name
    assert re.match(rf"{name} is for ", str(caught.value))
    assert re.search(r"leave it out|limited by duration", str(caught.value), re.IGNORECASE)


def test_a_run_on_a_network_has_no_iterations():
    with pytest.raises(OptionError, match="limited by duration"):
        bm.barycenter(PAIR, reg=1, network="path", max_iter=10)


def test_the_other_methods_need_a_network():
    with pytest.raises(OptionError, match="'a2dwb' runs on a network") as caught:
        bm.barycenter(PAIR, reg=1, method="a2dwb")
    assert caught.value.option == "method"


def test_none_leaves_an_option_out_only_where_that_is_the_default(work_is_not_done):
    with pytest.raises(ReachedTheWorkError):
        bm.barycenter(PAIR, reg=1, network=None, workers=None, step=None, address=None, start=None)
    with pytest.raises(OptionError, match="duration is None"):
        bm.barycenter(PAIR, reg=1, network="path", duration=None)


def test_options_that_apply_pass():
    for place in PLACES:
        check_places({name for name, one in FIELDS.items() if place in (one.metadata["places"] or PLACES)}, place)


# values

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(), st.text(max_size=4)), max_size=3),
    st.dictionaries(st.sampled_from(["kind", "node", "x"]), st.integers(), max_size=2),
    st.complex_numbers(),
    st.builds(object),
)


@given(name=st.sampled_from([name for name, one in FIELDS.items() if one.metadata["reader"]]), value=JUNK)
def test_any_value_is_read_or_refused_with_the_name_of_the_option(name, value):
    refusal = None
    try:
        read = read_value(FIELDS[name], value)
        # reading again changes nothing
        assert repr(read_value(FIELDS[name], read)) == repr(read)
    except BarymeshError as error:
        refusal = error
    assert refusal is None or (refusal.option == name and str(refusal))


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "measures"])
def test_the_default_and_the_example_are_read_and_may_be_read_again(name):
    for value in (value_for(name), None if is_needed(FIELDS[name]) else FIELDS[name].default):
        if value is not None:
            read = read_value(FIELDS[name], value)
            assert repr(read_value(FIELDS[name], read)) == repr(read)
