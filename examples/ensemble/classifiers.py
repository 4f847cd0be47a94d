"""Three small classifiers, each of which sees some of the features, and their out-of-fold predictions."""

import math

FOLDS = 4
VIEWS = {"all": range(6), "front": range(4), "middle": (2, 3), "back": (4, 5)}


def out_of_fold(params, rows, labels, more_rows):
    """For each row the prediction of a model that has not seen it; for the others that of one that saw all."""
    view = VIEWS[params["view"]]
    rows, more_rows = ([[row[i] for i in view] for row in part] for part in (rows, more_rows))
    fit, found = FITS[params["kind"]], [0.0] * len(rows)
    for fold in range(FOLDS):
        seen = [index for index in range(len(rows)) if index % FOLDS != fold]
        predict = fit(params, [rows[i] for i in seen], [labels[i] for i in seen])
        for index in range(fold, len(rows), FOLDS):
            found[index] = predict(rows[index])
    predict = fit(params, rows, labels)
    return found, [predict(row) for row in more_rows]


def log_loss(predictions, labels):
    """The mean of -log(probability of the right label)."""
    safe = (min(max(p, 1e-3), 1 - 1e-3) for p in predictions)
    return -sum(math.log(p if label else 1 - p) for p, label in zip(safe, labels, strict=False)) / len(labels)


def fit_line(params, rows, labels):
    """Logistic regression by gradient descent."""
    weights, rate = [0.0] * (len(rows[0]) + 1), 0.5
    for _ in range(25):
        slopes = [params["penalty"] * weight for weight in weights]
        for row, label in zip(rows, labels, strict=False):
            error = (_sigmoid(_dot(weights, row)) - label) / len(rows)
            slopes[0] += error
            for index, value in enumerate(row, start=1):
                slopes[index] += error * value
        weights = [weight - rate * slope for weight, slope in zip(weights, slopes, strict=False)]
    return lambda row: _sigmoid(_dot(weights, row))


def fit_neighbours(params, rows, labels):
    """The share of positive labels among the nearest rows."""
    count = params["neighbours"]

    def predict(row):
        near = sorted(
            (sum((a - b) ** 2 for a, b in zip(row, other, strict=False)), label)
            for other, label in zip(rows, labels, strict=False)
        )
        return (sum(label for _, label in near[:count]) + 1) / (count + 2)

    return predict


def fit_boxes(params, rows, labels):
    """The share of positive labels in the box that a row falls into; each feature is cut at its quantiles."""
    cuts = []
    for column in zip(*rows, strict=False):
        ordered = sorted(column)
        cuts.append([ordered[len(ordered) * part // params["parts"]] for part in range(1, params["parts"])])
    counts = {}
    for row, label in zip(rows, labels, strict=False):
        box = _box(row, cuts)
        ones, total = counts.get(box, (0, 0))
        counts[box] = ones + label, total + 1

    def predict(row):
        ones, total = counts.get(_box(row, cuts), (0, 0))
        return (ones + 1) / (total + 2)

    return predict


def _box(row, cuts):
    return tuple(sum(value > cut for cut in own) for value, own in zip(row, cuts, strict=False))


def _dot(weights, row):
    return weights[0] + sum(weight * value for weight, value in zip(weights[1:], row, strict=False))


def _sigmoid(value):
    return 1 / (1 + math.exp(-max(min(value, 30.0), -30.0)))


FITS = {"line": fit_line, "neighbours": fit_neighbours, "boxes": fit_boxes}
