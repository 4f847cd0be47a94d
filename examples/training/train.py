"""Trains a small network to tell two half-moons apart, and reports each epoch."""

import math
import random

from loopty_sdk import Run

EPOCHS = 40
DEFAULTS = {"learning_rate": 0.01, "optimizer": "sgd", "momentum": 0.0, "hidden": 8, "batch": 32}


def two_moons(count, rng):
    """Points ((x, y), label) of two interleaved half-circles, with noise."""
    points = []
    for index in range(count):
        label, angle = index % 2, rng.uniform(0, math.pi)
        x, y = (1 - math.cos(angle), 0.5 - math.sin(angle)) if label else (math.cos(angle), math.sin(angle))
        points.append(((rng.gauss(x, 0.2), rng.gauss(y, 0.2)), label))
    return points


class Network:
    """One hidden layer of tanh units; the weights of a unit are [from x, from y, bias, to the output]."""

    def __init__(self, hidden, rng):
        self.weights = [rng.gauss(0, 0.5) for _ in range(4 * hidden + 1)]

    def forward(self, point):
        """The units' activations and the probability of label 1."""
        (x, y), w = point, self.weights
        units = [math.tanh(w[i] * x + w[i + 1] * y + w[i + 2]) for i in range(0, len(w) - 1, 4)]
        logit = w[-1] + sum(unit * w[4 * i + 3] for i, unit in enumerate(units))
        return units, 1 / (1 + math.exp(-max(min(logit, 30), -30)))

    def gradient(self, batch):
        """The gradient of the mean cross-entropy over the batch."""
        total = [0.0] * len(self.weights)
        for (x, y), label in batch:
            units, probability = self.forward((x, y))
            error = (probability - label) / len(batch)
            for i, unit in enumerate(units):
                back = error * self.weights[4 * i + 3] * (1 - unit * unit)
                total[4 * i] += back * x
                total[4 * i + 1] += back * y
                total[4 * i + 2] += back
                total[4 * i + 3] += error * unit
            total[-1] += error
        return total


def sgd(learning_rate, momentum):
    """A function that gives the step for each gradient, with the memory of the last one."""
    last = []

    def step(gradient):
        before = last or [0.0] * len(gradient)
        last[:] = [momentum * v - learning_rate * g for v, g in zip(before, gradient, strict=True)]
        return last

    return step


def adam(learning_rate, decay=0.9, square_decay=0.999):
    """The same with steps scaled by the running mean and size of each gradient."""
    means, squares, count = [], [], 0

    def step(gradient):
        nonlocal count
        count += 1
        zeros = [0.0] * len(gradient)
        means[:] = [decay * m + (1 - decay) * g for m, g in zip(means or zeros, gradient, strict=True)]
        pairs = zip(squares or zeros, gradient, strict=True)
        squares[:] = [square_decay * s + (1 - square_decay) * g * g for s, g in pairs]
        scale = learning_rate * math.sqrt(1 - square_decay**count) / (1 - decay**count)
        return [-scale * m / (math.sqrt(s) + 1e-8) for m, s in zip(means, squares, strict=True)]

    return step


def validation(network, points):
    """The mean cross-entropy and the accuracy."""
    chances = [p if label else 1 - p for point, label in points for p in [network.forward(point)[1]]]
    return -sum(map(math.log, chances)) / len(chances), sum(p > 0.5 for p in chances) / len(chances)


def main():
    run = Run()
    params = {**DEFAULTS, **run.params}
    # Every trial sees the same points; the seed of the trial gives its first weights and its batches.
    data = two_moons(1200, random.Random(0))
    training, held_out = data[:800], data[800:]
    rng = random.Random(run.seed or 0)
    network = Network(params["hidden"], rng)
    rate = params["learning_rate"]
    step = sgd(rate, params["momentum"]) if params["optimizer"] == "sgd" else adam(rate)
    for epoch in range(1, EPOCHS + 1):
        rng.shuffle(training)
        for start in range(0, len(training), params["batch"]):
            change = step(network.gradient(training[start : start + params["batch"]]))
            network.weights = [weight + delta for weight, delta in zip(network.weights, change, strict=True)]
        loss, accuracy = validation(network, held_out)
        run.report(epoch, {"val loss (lower is better)": loss, "accuracy": accuracy})
        if run.should_stop():
            break
    run.finish(loss)


if __name__ == "__main__":
    main()
