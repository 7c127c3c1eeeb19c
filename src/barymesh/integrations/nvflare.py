"""Barycenters with NVIDIA FLARE: a Controller that coordinates, an Executor for each site, and a job with both.

The sites mask what they send, so that the server sees sums only. A job is made by the server, so what protects a site
is not in it: a site has a folder of its own, which the environment variable BARYMESH_SITE names, with its key and
``sites.toml``. Its memory of a run is there too, and the log with the reasons of what went wrong, which may have data
in them: FLARE sends the logs and files in the folder of a run to the server.
"""

from __future__ import annotations

import importlib
import inspect
import os
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from barymesh.errors import NetworkError, OptionError
from barymesh.extras import needs
from barymesh.integrations.star import EQUAL, Report, Site, StarOptions
from barymesh.io.atomic import replacing

with needs("nvflare"):
    from nvflare.apis.executor import Executor
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable, make_reply
    from nvflare.apis.signal import Signal
    from nvflare.app_common.abstract.fl_model import FLModel
    from nvflare.app_common.utils.fl_model_utils import FLModelUtils
    from nvflare.app_common.workflows.model_controller import ModelController
    from nvflare.job_config.api import FedJob

    from barymesh.integrations.masked_star import new_coordinator, new_site

# the name of the task, and of the file in the folder of the run at the server
TASK, RESULT = "barycenter", "barycenter.npz"
# what names the folder of a site, or one with a folder of that name for each site; and its log there
SITE, LOG = "BARYMESH_SITE", "barymesh.log"
# a site for which this is "none" sends what it sends without masks
WITHOUT_MASKS = "BARYMESH_MASKS"
# seconds that a round may take by default
TIMEOUT = 600

F = TypeVar("F", bound=Callable[[str], Any])


def site_measure(load: F) -> F:
    """A decorator: the function reads the measure of a site, whose name it is called with. No job can have a site call
    any other function; it can have it import any module that is installed there.

    Examples
    --------
    >>> import barymesh as bm
    >>> from barymesh.integrations.nvflare import site_measure  # doctest: +SKIP
    >>> @site_measure  # doctest: +SKIP
    ... def load(site):
    ...     return bm.read_measures(f"/data/{site}.csv")[0]
    """
    load.is_site_measure = True  # type: ignore[attr-defined]
    return load


class BarycenterController(ModelController):  # type: ignore[misc, unused-ignore]
    """Runs rounds with all sites of the job, and writes ``barycenter.npz`` in the folder of the run. The arguments are
    those of ``StarOptions``; ``timeout``: the seconds that a round may take."""

    def __init__(
        self, support: str, reg: float, sites: int, tol: float = 1e-6, max_rounds: int = 500, weights: str = EQUAL,
        masks: bool = True, timeout: int = TIMEOUT,
    ) -> None:  # fmt: skip
        super().__init__(persistor_id="")
        # the framework writes a job from the attributes that have the names of the arguments
        self.support, self.reg, self.sites, self.tol = support, reg, sites, tol
        self.max_rounds, self.weights, self.masks, self.timeout = max_rounds, weights, masks, timeout
        self._options = StarOptions(
            support=support, reg=reg, sites=sites, tol=tol, max_rounds=max_rounds, weights=weights, masks=masks
        )

    def run(self) -> None:
        coordinator, names = new_coordinator(self._options), sorted(self.sample_clients())
        if len(names) != self.sites:
            raise NetworkError(f"The job has the sites {', '.join(names)}, and sites is {self.sites}.")
        while coordinator.result is None:
            if self.abort_signal.triggered:
                return
            target = {} if coordinator.target is None else {"target": coordinator.target}
            asked = FLModel(params=target, current_round=coordinator.round)
            replies = self.send_model_and_wait(task_name=TASK, data=asked, targets=names, timeout=self.timeout)
            found = {reply.meta["client_name"]: _read(reply) for reply in replies}
            missing = [name for name in names if name not in found]
            if missing:
                raise NetworkError(
                    f"No report of round {coordinator.round} came from {', '.join(missing)}. One site that fails ends "
                    f"the round of all; {LOG} in the folder of that site says why. Submit the job again when it is "
                    "well."
                )
            coordinator.advance([found[name] for name in names])
            self.info(f"Round {coordinator.round}: the distance from the barycenter is about {coordinator.error:.2g}")
        result = coordinator.result
        written = result.save(Path(self.get_run_dir()) / RESULT)
        self.info(
            f"{result.message} Gap {result.gap:.3g}. The barycenter is in {written}, and in what is downloaded of the "
            "job afterwards."
        )


class BarycenterExecutor(Executor):  # type: ignore[misc, unused-ignore]
    """Answers the controller at a site. ``load``: a function as ``module:name``, with the decorator ``site_measure``,
    called with the name of the site; it reads the measure of the site: samples, or a measure of barymesh. The other
    arguments are those of ``StarOptions``, and the same everywhere."""

    def __init__(
        self, load: str, support: str, reg: float, sites: int, tol: float = 1e-6, max_rounds: int = 500,
        weights: str = EQUAL, masks: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.load, self.support, self.reg, self.sites, self.tol = load, support, reg, sites, tol
        self.max_rounds, self.weights, self.masks = max_rounds, weights, masks
        self._options = StarOptions(
            support=support, reg=reg, sites=sites, tol=tol, max_rounds=max_rounds, weights=weights, masks=masks
        )
        self._site: Site | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        if task_name != TASK:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        folder = _site_folder(fl_ctx.get_identity_name())
        if folder is None:
            self.log_error(
                fl_ctx, f"{SITE} in the environment of the site must be the absolute path of its own folder."
            )
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        asked = FLModelUtils.from_shareable(shareable)
        try:
            with _told_to_nobody_else(folder):
                target, number = asked.params.get("target"), int(asked.current_round)
                name = fl_ctx.get_identity_name()
                memory = folder / f"memory-{name}-{fl_ctx.get_job_id()}.npz"
                site = self._site = self._remembered(name, folder, memory, number)
                report = site.report(number, None if target is None else np.asarray(target))
                with replacing(memory, private=True) as file:
                    np.savez(file, **site.saved())  # type: ignore[arg-type]
        except (Exception, SystemExit):
            # the reason may have data in it, and the server gets the log
            self.log_error(fl_ctx, f"The site could not take part in the barycenter: {LOG} in its own folder says why.")
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        return FLModelUtils.to_shareable(FLModel(params=dict(report), current_round=asked.current_round))

    def _remembered(self, name: str, folder: Path, memory: Path, number: int) -> Site:
        """The site as it was after the last round. Its process may have been started again since: the simulator does so
        in every round, if it has fewer threads than sites."""
        if self._site is not None and number > 0:
            return self._site
        # a key that is not found is an error: only the site itself says that it does without
        identity = None if os.environ.get(WITHOUT_MASKS) == "none" else folder
        site = new_site(self._options, _loader(self.load)(name), identity, seed=zlib.crc32(name.encode()))
        if number > 0 and memory.exists():
            with np.load(memory) as stored:
                site.restore(dict(stored))
        return site


def barycenter_job(name: str, load: str, script: str | Path | None = None, **options: Any) -> FedJob:
    """A job for the simulator, or to be exported and submitted.

    Parameters
    ----------
    name : str
        Its name.
    load : str
        A function that reads the measure of a site, as ``module:name``, with the decorator ``site_measure``; it is
        called with the name of the site.
    script : path, optional
        The file of that module, which is sent along; otherwise the module must be installed at the sites.
    **options
        Those of ``StarOptions``, and ``timeout``, the seconds that a round may take.

    Returns
    -------
    nvflare.job_config.api.FedJob
        With a ``BarycenterController`` for the server and a ``BarycenterExecutor`` for all sites.
    """
    timeout = options.pop("timeout", TIMEOUT)
    agreed = StarOptions.from_config(options)
    job = FedJob(name=name, min_clients=agreed.sites)
    # it is installed at the sites, and not sent to them
    job.set_app_packages(["barymesh"])
    job.to_server(BarycenterController(timeout=timeout, **vars(agreed)))
    job.to_clients(BarycenterExecutor(load, **vars(agreed)), tasks=[TASK])
    if script is not None:
        job.to_clients(str(script))
    return job


def _site_folder(name: str) -> Path | None:
    """The folder that this site has set for itself, or for all sites of a simulation; None if it has not."""
    above = Path(os.environ.get(SITE) or os.devnull)
    try:
        folder = above / name if (above / name).is_dir() else above
        return folder if folder.is_absolute() and folder.is_dir() else None
    except OSError:
        return None


@contextmanager
def _told_to_nobody_else(folder: Path) -> Iterator[None]:
    """Warnings and errors go to the log in the folder of the site."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield
        except (Exception, SystemExit):
            _write_log(folder, traceback.format_exc())
            raise
        finally:
            for one in caught:
                _write_log(folder, f"{one.category.__name__}: {one.message}\n")


def _write_log(folder: Path, text: str) -> None:
    opened = os.open(folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with open(opened, "a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")


def _loader(text: str) -> Callable[[str], Any]:
    module, _, name = text.partition(":")
    found: Any = getattr(importlib.import_module(module), name, None) if name else None
    # others may have any attribute, and be imported from anywhere
    if not inspect.isfunction(found) or getattr(found, "is_site_measure", None) is not True:
        raise OptionError(
            f"load is {text!r}; it must name a function as module:name, and that must have the decorator site_measure "
            "of barymesh.integrations.nvflare: otherwise a job could have the site call any function."
        )
    reader: Callable[[str], Any] = found
    return reader


def _read(reply: FLModel) -> Report:
    try:
        return {name: np.asarray(array) for name, array in reply.params.items()}
    except (AttributeError, TypeError, ValueError) as problem:
        raise NetworkError(f"The reply of {reply.meta['client_name']} is no report ({problem}).") from problem
