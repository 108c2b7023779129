#!/usr/bin/env python3
"""Trains a small network to tell penguins apart. Plain Python, no packages.

Usage: train.py RATE HIDDEN EPOCHS DATA [--keep-missing]

Prints one line an epoch, which Neronet reads as metrics:
    epoch 3: loss = 0.4127, test error = 0.0750
and writes the trained network to model.json.
"""

import csv
import json
import math
import random
import sys

MEASURED = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


def read(path, keep_missing):
    """Rows of (scaled measurements, species number), shuffled, and the names."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if not keep_missing:
        rows = [row for row in rows if all(row[name] != "NA" for name in MEASURED)]
    species = sorted({row["species"] for row in rows})
    table = [[float(row[name]) for name in MEASURED] for row in rows]
    for column in range(len(MEASURED)):
        values = [row[column] for row in table]
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        for row in table:
            row[column] = (row[column] - mean) / spread
    examples = [(x, species.index(row["species"])) for x, row in zip(table, rows)]
    random.shuffle(examples)
    return examples, species


def layer(inputs, outputs):
    scale = 1 / math.sqrt(inputs)
    return [[random.gauss(0, scale) for _ in range(inputs + 1)] for _ in range(outputs)]


def apply(weights, x):
    return [sum(w * v for w, v in zip(row, x)) + row[-1] for row in weights]


def softmax(scores):
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def step(network, x, truth, rate):
    """One example forwards and backwards; returns its loss."""
    hidden, output = network
    inner = [math.tanh(v) for v in apply(hidden, x)] if hidden else x
    guess = softmax(apply(output, inner))
    error = [g - (i == truth) for i, g in enumerate(guess)]
    back = [sum(e * row[j] for e, row in zip(error, output)) for j in range(len(inner))]
    learn(output, error, inner, rate)
    if hidden:
        learn(hidden, [b * (1 - v * v) for b, v in zip(back, inner)], x, rate)
    return -math.log(max(guess[truth], 1e-300))


def learn(weights, error, x, rate):
    for e, row in zip(error, weights):
        for j, v in enumerate(x):
            row[j] -= rate * e * v
        row[-1] -= rate * e


def wrong(network, examples):
    hidden, output = network
    count = 0
    for x, truth in examples:
        inner = [math.tanh(v) for v in apply(hidden, x)] if hidden else x
        scores = apply(output, inner)
        count += scores.index(max(scores)) != truth
    return count / len(examples)


def main():
    rate, hidden, epochs, path = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    random.seed(1)
    examples, species = read(path, "--keep-missing" in sys.argv)
    cut = len(examples) * 3 // 4
    train, test = examples[:cut], examples[cut:]
    network = (
        layer(len(MEASURED), hidden) if hidden else None,
        layer(hidden or len(MEASURED), len(species)),
    )
    print(f"{len(train)} penguins to learn from, {len(test)} to be tested on")
    for epoch in range(1, epochs + 1):
        random.shuffle(train)
        loss = sum(step(network, x, truth, rate) for x, truth in train) / len(train)
        print(f"epoch {epoch}: loss = {loss:.4f}, test error = {wrong(network, test):.4f}")
    with open("model.json", "w") as file:
        json.dump({"species": species, "hidden": network[0], "output": network[1]}, file)


if __name__ == "__main__":
    main()
