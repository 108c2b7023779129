#!/usr/bin/env python3
"""Fits a curve through noisy points by gradient descent. Plain Python, no packages.

Usage: train.py --rate RATE --degree DEGREE

Prints a line every ten epochs, which Neronet reads as metrics, and the error on points that it
did not see at the end:
    epoch 10: loss = 0.4127
    test error = 0.0750
"""

import argparse
import math
import random

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
parser.add_argument("--degree", type=int, required=True)
parser.add_argument("--epochs", type=int, default=300)
args = parser.parse_args()

random.seed(1)
points = [(x / 20, math.sin(x / 6) + random.gauss(0, 0.1)) for x in range(-20, 21)]
random.shuffle(points)
seen, unseen = points[:30], points[30:]
weights = [0.0] * (args.degree + 1)


def off(x, y):
    """How far the curve lies above a point."""
    return sum(w * x**k for k, w in enumerate(weights)) - y


def error(some):
    return sum(off(x, y) ** 2 for x, y in some) / len(some)


for epoch in range(1, args.epochs + 1):
    for x, y in seen:
        step = args.rate * off(x, y)
        for k in range(len(weights)):
            weights[k] -= step * x**k
    if epoch % 10 == 0:
        print(f"epoch {epoch}: loss = {error(seen):.4f}", flush=True)
print(f"test error = {error(unseen):.4f}")
