"""Barycenters with NVIDIA FLARE: a Controller that coordinates, an Executor for each site, and a job with both.

The sites mask what they send, so that the server sees sums only.
"""

from __future__ import annotations

import importlib
import zlib
from pathlib import Path
from typing import Any

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

# the name of the task, and of the files in the folders of the run: at the server, and at the sites
TASK, RESULT, MEMORY = "barycenter", "barycenter.npz", "barymesh-memory.npz"
# seconds that a round may take by default
TIMEOUT = 600


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
                    f"No report of round {coordinator.round} came from {', '.join(missing)}. Their own logs say why; "
                    "submit the job again when they are well."
                )
            coordinator.advance([found[name] for name in names])
            self.info(f"Round {coordinator.round}: the distance from the barycenter is about {coordinator.error:.2g}")
        result = coordinator.result
        written = result.save(Path(self.get_run_dir()) / RESULT)
        self.info(f"{result.message} Gap {result.gap:.3g}. The barycenter is in {written}")


class BarycenterExecutor(Executor):  # type: ignore[misc, unused-ignore]
    """Answers the controller at a site. ``load``: a function as ``module:name``, called with the name of the site;
    it reads the measure of the site: samples, or a measure of barymesh. ``identity``: a function likewise, which gives
    the folder with the key of the site and those of the others; empty without masks. The other arguments are those
    of ``StarOptions``, and the same everywhere."""

    def __init__(
        self, load: str, support: str, reg: float, sites: int, tol: float = 1e-6, max_rounds: int = 500,
        weights: str = EQUAL, masks: bool = True, identity: str = "",
    ) -> None:  # fmt: skip
        super().__init__()
        self.load, self.support, self.reg, self.sites, self.tol = load, support, reg, sites, tol
        self.max_rounds, self.weights, self.masks, self.identity = max_rounds, weights, masks, identity
        self._options = StarOptions(
            support=support, reg=reg, sites=sites, tol=tol, max_rounds=max_rounds, weights=weights, masks=masks
        )
        self._site: Site | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        if task_name != TASK:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        try:
            asked = FLModelUtils.from_shareable(shareable)
            target, number = asked.params.get("target"), int(asked.current_round)
            memory = Path(fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id())) / MEMORY
            site = self._site = self._remembered(fl_ctx, memory, number)
            report = site.report(number, None if target is None else np.asarray(target))
            with replacing(memory, private=True) as file:
                np.savez(file, **site.saved())  # type: ignore[arg-type]
        except Exception:
            # what is wrong with the data of a site is told to nobody else
            self.log_exception(fl_ctx, "The site could not take part in the barycenter")
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        return FLModelUtils.to_shareable(FLModel(params=dict(report), current_round=asked.current_round))

    def _remembered(self, fl_ctx: FLContext, memory: Path, number: int) -> Site:
        """The site as it was after the last round. Its process may have been started again since: the simulator does so
        in every round, if it has fewer threads than sites."""
        if self._site is not None and number > 0:
            return self._site
        name = fl_ctx.get_identity_name()
        identity = _function("identity", self.identity)(name) if self.identity else None
        measure = _function("load", self.load)(name)
        site = new_site(self._options, measure, identity, seed=zlib.crc32(name.encode()))
        if number > 0 and memory.exists():
            with np.load(memory) as stored:
                site.restore(dict(stored))
        return site


def barycenter_job(
    name: str, load: str, script: str | Path | None = None, *, identity: str = "", **options: Any
) -> FedJob:
    """A job for the simulator, or to be exported and submitted.

    Parameters
    ----------
    name : str
        Its name.
    load : str
        A function that reads the measure of a site, as ``module:name``; it is called with the name of the site.
    script : path, optional
        The file of that module, which is sent along; otherwise the module must be installed at the sites.
    identity : str, optional
        A function that gives the folder with the key of a site and those of the others, as ``module:name``, called with
        the name of the site. Needed unless ``masks=False``.
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
    job.to_clients(BarycenterExecutor(load, identity=identity, **vars(agreed)), tasks=[TASK])
    if script is not None:
        job.to_clients(str(script))
    return job


def _function(what: str, text: str) -> Any:
    module, _, name = text.partition(":")
    found = getattr(importlib.import_module(module), name, None) if name else None
    if not callable(found):
        raise OptionError(f"{what} is {text!r}; it must name a function as module:name.")
    return found


def _read(reply: FLModel) -> Report:
    try:
        return {name: np.asarray(array) for name, array in reply.params.items()}
    except (AttributeError, TypeError, ValueError) as problem:
        raise NetworkError(f"The reply of {reply.meta['client_name']} is no report ({problem}).") from problem
