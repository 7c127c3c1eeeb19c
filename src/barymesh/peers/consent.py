"""What a node is about to do with its data, in words, for the person who has to agree."""

from __future__ import annotations

from barymesh.peers.kit import Kit
from barymesh.peers.node import PrivacyLevel, neighbours
from barymesh.problem import Problem


def intention(kit: Kit, problem: Problem, data: str, privacy: PrivacyLevel | None) -> list[str]:
    """What the node of the kit will compute from these data, and who gets what: a line for each. ``problem`` has the
    node's own measure."""
    network = kit.network
    others = ", ".join(f"{one.name} ({one.endpoint})" for one in neighbours(kit))
    if privacy is not None:
        what = f"one release of the data with epsilon {privacy.epsilon:g} and delta {privacy.delta:g}, and no more"
    else:
        what = "potentials"
        if problem.free is not None:
            what += ", means of the data near each point, and their mean and mean square in every coordinate,"
        what += " computed from the data, without differential privacy"
        what += ", but masked" if network.masks else ": a neighbour may reconstruct much of a small data set"
    masks = (
        f"Masks:      nobody can read anything but sums over all members, of which there are at least "
        f"{network.min_members}"
        if network.masks
        else "Masks:      none"
    )
    kind = "debiased Wasserstein" if network.debias else "Wasserstein"
    public = "" if kit.entry.records is None else "; everybody can read its number of records in the network file"
    return [
        f"Node:       {kit.name} of the network {network.run}, with {len(network.nodes)} nodes",
        f"Network:    {network.fingerprint}",
        f"Computes:   the {kind} barycenter on {network.support} with reg {network.reg:g}, by {network.method}",
        f"From:       {data}, {problem.atoms[0].weights.size} points, with weight {kit.weight:g}{public}",
        f"Share of the data outside of the support: {problem.share_outside():.1%}",
        f"Neighbours: {others}",
        f"They get:   {what}",
        masks,
        "All nodes learn the barycenter.",
    ]
