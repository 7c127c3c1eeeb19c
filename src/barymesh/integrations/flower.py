"""Barycenters with Flower: a ServerApp that coordinates, and a ClientApp for each site.

The run configuration of the app is that of ``StarOptions``; it may also have ``timeout``, the seconds that a round may
take, and ``output``, the file that the server writes. The sites mask what they send, so that the server sees sums only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from barymesh import readers as read
from barymesh.errors import NetworkError
from barymesh.extras import needs
from barymesh.integrations.star import Coordinator, Report, StarOptions
from barymesh.result import Result

with needs("flower"):
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

    from barymesh.integrations.masked_star import new_coordinator, new_site

_log = logging.getLogger("flwr")

# what messages and memories are called, and the key of the node configuration with the folder of a site's identity
ACTION, MEMORY, IDENTITY = "barycenter", "barymesh", "identity"
MESSAGE_TYPE = f"query.{ACTION}"
# seconds that a round may take by default, and between two looks for sites
TIMEOUT, PAUSE = 600.0, 0.5
# how often a site is asked in one round
ATTEMPTS = 3


def client_app(load: Callable[[Context], Any], identity: Callable[[Context], Any] | None = None) -> ClientApp:
    """The app of a site.

    Parameters
    ----------
    load : callable
        ``load(context)`` reads the measure of the site: samples, or a measure of barymesh. ``context.node_config`` has
        what the site was started with, such as the path of its data. It is called in every round.
    identity : callable, optional
        ``identity(context)`` is the folder with the key of the site and those of the others, or an ``Identity``. By
        default the folder that the site was started with, ``identity`` in ``context.node_config``.

    Returns
    -------
    flwr.clientapp.ClientApp
        It answers the messages of ``server_app``, and keeps its memory in the context of the run.
    """
    app = ClientApp()

    @app.query(ACTION)  # type: ignore[untyped-decorator, unused-ignore]
    def answer(message: Message, context: Context) -> Message:
        try:
            return _answer(load, identity or _folder, message, context)
        except Exception:
            # Flower sends the text of an error to the server, and ours may have data in it
            _log.exception("The site could not take part in the barycenter")
            raise NetworkError("The site could not take part; its own log says why.") from None

    return app


def _folder(context: Context) -> Any:
    return context.node_config.get(IDENTITY)


def _answer(
    load: Callable[[Context], Any], identity: Callable[[Context], Any], message: Message, context: Context
) -> Message:
    options = StarOptions.from_config(context.run_config)
    site = new_site(options, load(context), identity(context), seed=context.node_id)
    if MEMORY in context.state:
        site.restore({name: array.numpy() for name, array in context.state[MEMORY].items()})
    target = message.content["target"].get("target")
    report = site.report(int(message.content["round"]["number"]), None if target is None else target.numpy())
    context.state[MEMORY] = _arrays(site.saved())
    return Message(RecordDict({"report": _arrays(report)}), reply_to=message)


def server_app(on_result: Callable[[Result, Context], None] | None = None) -> ServerApp:
    """The app of the server.

    Parameters
    ----------
    on_result : callable, optional
        ``on_result(result, context)`` is called at the end, with the barycenter and its certificate. By default the
        result is only written to the file ``output`` of the run configuration, if there is one.

    Returns
    -------
    flwr.serverapp.ServerApp
        It waits until all sites are connected, and runs rounds until they have converged.
    """
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator, unused-ignore]
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        timeout = read.positive("timeout", config.get("timeout", TIMEOUT))
        result = run_rounds(grid, StarOptions.from_config(config), timeout)
        _log.info(
            "%s After %d rounds: gap %.3g, total variation to the barycenter at most %.3g",
            result.message, result.activations // (result.measures or 1), result.gap, result.tv_bound,
        )  # fmt: skip
        if config.get("output"):
            _log.info("The barycenter is in %s", result.save(str(config["output"])))
        if on_result is not None:
            on_result(result, context)

    return app


def run_rounds(grid: Grid, options: StarOptions, timeout: float = TIMEOUT) -> Result:
    """All rounds with the sites of the grid; a site has ``timeout`` seconds to appear, and to answer."""
    coordinator, nodes = new_coordinator(options), _sites(grid, options.sites, timeout)
    while coordinator.result is None:
        reports = _reports(grid, nodes, coordinator, timeout)
        try:
            coordinator.advance(reports)
        except NetworkError as error:
            raise NetworkError(f"{error} The reports are those of the nodes {', '.join(map(str, nodes))}.") from error
        _log.info("Round %d: the distance from the barycenter is about %.2g", coordinator.round, coordinator.error)
    return coordinator.result


def _sites(grid: Grid, wanted: int, timeout: float) -> list[int]:
    """The nodes that take part, in the order in which their reports are added up."""
    end = time.monotonic() + timeout
    while len(nodes := sorted(grid.get_node_ids())) < wanted:
        if time.monotonic() > end:
            raise NetworkError(
                f"{len(nodes)} nodes are connected after {timeout:g} s, and sites is {wanted}. Start the SuperNodes of "
                "the others, or set sites to the number of those that take part."
            )
        time.sleep(PAUSE)
    if len(nodes) > wanted:
        raise NetworkError(
            f"{len(nodes)} nodes are connected, and sites is {wanted}. A node that was started again counts twice "
            "until Flower has forgotten the old one: wait, or set sites, if more take part."
        )
    return nodes


def _reports(grid: Grid, nodes: list[int], coordinator: Coordinator, timeout: float) -> list[Report]:
    """The reports of all nodes on the present round. Those that do not answer are asked again: a site acts on a round
    once, however often it is asked."""
    target = {} if coordinator.target is None else {"target": coordinator.target}
    content = RecordDict({"round": ConfigRecord({"number": coordinator.round}), "target": _arrays(target)})
    found: dict[int, Report] = {}
    for _ in range(ATTEMPTS):
        waiting = [node for node in nodes if node not in found]
        asked = [Message(content, node, MESSAGE_TYPE, group_id=str(coordinator.round)) for node in waiting]
        for reply in grid.send_and_receive(asked, timeout=timeout) if asked else ():
            if reply.has_error():
                _log.warning("Node %d: %s", reply.metadata.src_node_id, reply.error.reason)
            else:
                found[reply.metadata.src_node_id] = _read(reply)
    missing = [str(node) for node in nodes if node not in found]
    if missing:
        raise NetworkError(
            f"No report of round {coordinator.round} came from {', '.join(missing)}, asked {ATTEMPTS} times. Their own "
            "logs say why; start the run again when they are well."
        )
    return [found[node] for node in nodes]


def _read(reply: Message) -> Report:
    try:
        return {name: array.numpy() for name, array in reply.content["report"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NetworkError(
            f"The reply of node {reply.metadata.src_node_id} is no report ({error}). All nodes must run the same app."
        ) from error


def _arrays(named: Report) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in named.items()})
