"""Running estimates of a rate and of a cost, small enough to save as two or three numbers."""

from dataclasses import dataclass


@dataclass
class Rate:
    """What came of what was promised: v += alpha * (got / promised - v).

    Not capped: a calibration may well say that twice the promised tokens arrive.
    """

    value: float  # the estimate
    alpha: float = 0.15  # weight of a new sample

    def update(self, got: float, promised: float) -> None:
        """Take in `got` of `promised`; nothing happens where nothing was promised."""
        if promised > 0:
            self.value += self.alpha * (got / promised - self.value)


@dataclass
class Est:
    """A mean of the first `warm` samples, then an exponential average; a prior until the first."""

    value: float  # the estimate; the prior until a sample came
    alpha: float = 0.25  # weight of a new sample once warm
    warm: int = 4  # samples that count alike
    count: int = 0  # samples so far

    def update(self, sample: float) -> None:
        """Take in one sample."""
        self.count += 1
        weight = 1.0 / self.count if self.count <= self.warm else self.alpha
        self.value += weight * (sample - self.value)
