"""When a job may be done again that is to take no more than a share of the time, though what is rare never waits.

    pace = Pace(share=8, least_s=0.2, most_s=0.5, burst_s=1.0)
    pace.remaining(now)            seconds until it may be done
    pace.done(began, ended, cost)  it was

After each job a pause is due of what it cost, times `share`. Pauses that were not made add up, and so long as they are
less than `burst_s` in all, a job may be done at once; a steady stream of jobs makes each of its pauses. Times are
`time.monotonic()`, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """See the module.

    Args:
        share: a job that cost t seconds needs a pause of share * t.
        least_s, most_s: the shortest and the longest pause.
        burst_s: how much of them may be owed.
        apart_s: the pause that is always made.
    """

    share: float
    least_s: float
    most_s: float
    burst_s: float
    apart_s: float = 0.0
    last: float = float("-inf")
    paid: float = float("-inf")

    def remaining(self, now: float) -> float:
        """Seconds from `now` until the job may be done; 0 if it may."""
        return max(0.0, self.paid - self.burst_s - now, self.last + self.apart_s - now)

    def done(self, began: float, ended: float, cost_s: float) -> None:
        """Notes a job; `paid` is then when all pauses up to the one after it would be over."""
        self.last = ended
        pause = min(self.most_s, max(self.least_s, self.share * cost_s))
        self.paid = max(self.paid + ended - began, ended) + pause
