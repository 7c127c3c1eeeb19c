"""Rounds on a star whose coordinator sees sums only: sites mask what they send, as nodes of a network do.

The coordinator is no member, and has no key. A run begins with two rounds for the masks themselves:

    round 0     each site draws a number, and sends that and nothing else: together they are the *roll*
    round 1     with the roll, each site sends its weight, masked; the coordinator learns the sum
    from 2 on   with the roll and the sum of the weights, each site sends its contribution, masked

The masks depend on the round, the target and the roll, and on those of all rounds before, so sites that were sent
different ones add up to nothing that can be read. A site answers each round once: if it is asked again, it sends the
same words, whatever it is asked with. One that continues from an old copy of its memory sends the same words to the
same targets, and has other masks from the first other target on.

What a site refuses does not depend on its data, but for one thing: records that are too far outside of the support. So
support, reg and weights are agreed on among the sites beforehand, in ``sites.toml``, and a coordinator that asks for
others is refused by all alike. In a run a site answers ``max_rounds`` targets, and never more than ``MOST_ROUNDS``, as
many as a node of a network answers at once. What the sites weigh together is agreed on too, or said once in a run.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.masks.round import Round
from barymesh.decentralized.masks.sums import MaskedSums
from barymesh.decentralized.tree.masked_reports import ANSWERS
from barymesh.errors import NetworkError, OptionError
from barymesh.integrations.identity import Identity, as_identity
from barymesh.integrations.star import EQUAL, LAST_ROUNDS, Coordinator, Floats, Report, Site, StarOptions
from barymesh.methods.entropic import WITHIN_LIMITS, require_reach
from barymesh.methods.rounds import Rounds

# what a site may weigh at most
LARGEST_WEIGHT = 2.0**40
# the rounds of a run, at most
MOST_ROUNDS = int(ANSWERS)
# the rounds before the first contribution; a run with no more than these and the certificate's finds nothing
ROLL_CALL, WEIGHING = 0, 1
LEAST_ROUNDS = WEIGHING + 1 + LAST_ROUNDS


def weight_sums(options: StarOptions) -> MaskedSums:
    """The format of the reports that have nothing but weights."""
    return MaskedSums(options.sites, np.empty(0), slice(None), slice(0, 0), np.empty(0), LARGEST_WEIGHT * options.sites)


def contribution_sums(options: StarOptions, method: Rounds) -> MaskedSums:
    """That of the reports with contributions, of sites whose weights are relative to their average."""
    return MaskedSums(
        options.sites, method.limits(), method.precise, method.fixed, method.fixed_sizes, float(options.sites)
    )


def _check_rounds(options: StarOptions) -> None:
    if options.max_rounds <= LEAST_ROUNDS:
        raise OptionError(
            f"max_rounds is {options.max_rounds}; the first two rounds are for the masks themselves, and a certificate "
            f"takes {LAST_ROUNDS} more at least. Give max_rounds = {LEAST_ROUNDS + 1} or more; 500 is usual."
        )
    if options.max_rounds > MOST_ROUNDS:
        raise OptionError(
            f"max_rounds is {options.max_rounds}; with masks a site takes part in {MOST_ROUNDS} rounds at most, "
            "since each shows the server how the sum answers to a target of its choice. Lower max_rounds."
        )


class MaskedSite(Site):
    """A site that masks what it sends, with its ``identity``; other arguments as for ``Site``."""

    def __init__(self, options: StarOptions, measure: Any, identity: Identity, *, seed: int = 0) -> None:
        # before the data are looked at
        _check_rounds(options)
        identity.agreement.check(options)
        super().__init__(options, measure, seed=seed)
        if len(identity.public) != options.sites:
            raise OptionError(
                f"sites is {options.sites}, and this site knows the keys of {len(identity.public)}: all who take part "
                "must be listed, and no others."
            )
        if self.weight > LARGEST_WEIGHT:
            raise OptionError(f"The site has {self.weight:g} records; with masks {LARGEST_WEIGHT:g} can be counted.")
        require_reach(self.method.problem, WITHIN_LIMITS)
        self.options, self.node = options, identity.number
        # sites that disagree about anything have other masks
        self._masks = identity.masks(secrets.token_bytes(32), repr(options))
        self._number = self._masks.number(self.node, 0.0, 0)
        self._words: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        # the digest of the rounds so far, and what all sites weigh, once that is known
        self._past, self._total = np.zeros(8), identity.agreement.records

    def report(self, number: int, target: Floats | None = None) -> Report:
        """``words``: masked, but for the roll. In round 1 the target is the roll; later it has that of the method, the
        roll, and the sum of the weights."""
        self.check_order(number, target)
        if number >= self.options.max_rounds:
            raise NetworkError(
                f"The coordinator asks for round {number}, and max_rounds is {self.options.max_rounds}: it goes on "
                "after the run has ended. It is not to be trusted."
            )
        if number > self.round:
            self._words = self._answer(number, np.empty(0) if target is None else np.asarray(target, dtype=float))
            self.round = number
        return {"words": self._words}

    def _answer(self, number: int, target: Floats) -> NDArray[np.uint64]:
        sites = self.options.sites
        if number == ROLL_CALL:
            return weight_sums(self.options).presence(self.node, self._number)
        down = 0 if number == WEIGHING else self.method.down
        if target.shape != (down + sites + (number > WEIGHING),):
            raise NetworkError(
                f"The target of round {number} has {target.size} numbers, which is not one of this run. Coordinator "
                "and sites must have the same support, reg, sites and masks."
            )
        roll = target[down : down + sites]
        if roll[self.node] != self._number or not (roll > 0).all():
            raise NetworkError(
                f"The roll of round {number} lacks a site, or does not have this one with the number that it has "
                "drawn: the run was begun anew, or the coordinator is not honest. Start the run again."
            )
        moment = Round(0.0, 0.0, float(number), np.concatenate([self._past, target]), roll)
        words = self._masked(number, moment, target[:down], target[-1])
        self._past = np.frombuffer(moment.digest, dtype="<u4").astype(float)
        return words

    def _masked(self, number: int, moment: Round, target: Floats, total: float) -> NDArray[np.uint64]:
        """The answer to the ``target (down,)`` of a round; ``total``: what all sites weigh, from round 2 on."""
        sites = self.options.sites
        if number == WEIGHING:
            sums = weight_sums(self.options)
            return sums.report(self._masks, self.node, moment, self.weight, 0.0, [np.empty(0)])
        least, most = float(sites), float(sites) if self.options.weights == EQUAL else sites * LARGEST_WEIGHT
        if not least <= total <= most or (np.isfinite(self._total) and total != self._total):
            raise NetworkError(
                f"The coordinator says that all {sites} sites weigh {total:g} together. Each weighs 1 or more, and "
                "together they weigh what they have agreed on (records in sites.toml), in every round. Correct "
                "records, or do not trust it."
            )
        self._total = total
        # neither cut nor refused if the total is too small: both would show which sites weigh more than a number of the
        # coordinator's choice
        share = self.weight * sites / total
        found = self.contribution(number, target)
        sums = contribution_sums(self.options, self.method)
        parts = [part[0] for part in found.parts]
        # the weights add up to the number of sites, which shows nothing of any
        return sums.report(self._masks, self.node, moment, 1.0, float(found.errors[0]), parts, share)

    def saved(self) -> dict[str, NDArray[Any]]:
        return {
            **super().saved(), "number": np.array(self._number), "words": self._words, "past": self._past,
            "total": np.array(self._total),
        }  # fmt: skip

    def restore(self, stored: dict[str, NDArray[Any]]) -> None:
        super().restore(stored)
        self._number, self._words, self._past = float(stored["number"]), stored["words"], stored["past"]
        self._total = float(stored["total"])


class MaskedCoordinator(Coordinator):
    """A coordinator that sees sums over all sites only."""

    report_names = ("words",)

    def __init__(self, options: StarOptions) -> None:
        _check_rounds(options)
        super().__init__(options)
        self._sums = contribution_sums(options, self.method)
        self.method.allow_for(self._sums.rounding, self._sums.fixed_rounding)
        self._roll, self._weight = np.zeros(options.sites), 0.0

    def advance(self, reports: Sequence[Report]) -> None:
        self.check_complete(reports)
        sums = self._sums if self.round > WEIGHING else weight_sums(self.options)
        for k, one in enumerate(reports):
            words = one["words"]
            if words.shape != (sums.up,) or words.dtype != np.uint64:
                raise NetworkError(
                    f"Report {k} of round {self.round} is not one of this run: it needs {sums.up} words of 64 bits. "
                    "Coordinator and sites must have the same support, reg, sites and masks."
                )
        words = np.asarray(np.sum([one["words"] for one in reports], axis=0, dtype=np.uint64))
        if self.round == ROLL_CALL:
            self._roll = words[sums.roll].astype(float)
            if np.count_nonzero(self._roll) < self.options.sites:
                raise NetworkError(
                    "The sites do not have a number each: two have the same identity, or their sites.toml differ. "
                    "Each needs a key of its own, and all the same sites.toml; compare its fingerprint."
                )
            self.round, self.target = WEIGHING, self._roll
            return
        total = sums.total(words, self._roll)
        if total is None:
            raise NetworkError(
                f"The masks of round {self.round} do not cancel. The sites must have the same sites.toml and the same "
                "options; or one of them has lied."
            )
        if self.round == WEIGHING:
            self._weight, self.round = total.weight, WEIGHING + 1
            found = self.method.begin(self.state, 0, np.zeros(self.method.down), 0.0, close=False).target
        else:
            assert self.target is not None
            # the distances of single sites are not known
            found = self.step(total, self.target[: self.method.down], consensus=np.nan)
        self.target = np.concatenate([found, self._roll, [self._weight]])


def new_site(options: StarOptions, measure: Any, identity: Any = None, *, seed: int = 0) -> Site:
    """The site, with masks or without. ``identity``: that of the site, or the folder that has it. A site that has one
    never sends anything else than masked sums, whatever the configuration says."""
    found = as_identity(identity)
    if options.masks and found is None:
        raise OptionError(
            "The sites mask what they send, and this one has no identity: make a key with `barymesh keygen FOLDER`, "
            "and put sites.toml with the public keys of all sites into the same folder. Or set masks = false, and let "
            "the server read what each site sends."
        )
    if not options.masks and found is not None:
        raise OptionError(
            "The configuration has masks = false, and this site has an identity, so that it sends nothing without "
            "masks. Set masks = true, or start the site without the identity."
        )
    return Site(options, measure, seed=seed) if found is None else MaskedSite(options, measure, found, seed=seed)


def new_coordinator(options: StarOptions) -> Coordinator:
    """The coordinator, with masks or without."""
    return (MaskedCoordinator if options.masks else Coordinator)(options)
