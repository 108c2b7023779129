"""A program for DistributedComputing: estimates pi by throwing darts, on every card there is."""

import random

from distributed_computing.api import Pool, WorkerInterface, start_head_node

PASSWORD = "secret"


class Thrower(WorkerInterface):
    def __init__(self, seed, radius=1.0):
        self.seed, self.radius = seed, radius

    def run(self, number, darts=10_000):
        chance = random.Random(self.seed + number)
        hits = sum(chance.uniform(-self.radius, self.radius) ** 2
                   + chance.uniform(-self.radius, self.radius) ** 2 < self.radius ** 2
                   for _ in range(darts))
        return number, 4 * hits / darts

    def handle_update(self, radius):
        self.radius = radius


def main():
    terminate, wait = start_head_node(PASSWORD)
    init_data = {"args": [42], "kwargs": {"radius": 2.0}}
    with Pool(Thrower, init_data, PASSWORD, min_workers=1) as pool:
        print("nodes:", pool.get_nodes_count())
        items = [{"args": [number], "kwargs": {"darts": 20_000}} for number in range(8)]
        for number, estimate in pool.map(items):
            print("throw {}: {:.4f}".format(number, estimate))
        pool.update_workers({"args": [3.0]})
        estimates = [estimate for _, estimate in pool.imap_unordered(items)]
        print("mean of {}: {:.2f}".format(len(estimates), sum(estimates) / len(estimates)))
    terminate()
    wait()


if __name__ == "__main__":
    main()
