"""Which workers a pool asks others for."""

import unittest

from neronet._shares import TAG, surplus


def rows(**pools):
    found, number = [], 0
    for name, states in pools.items():
        for state in states:
            number += 1
            found.append({
                "id": number, "collection": "pool-0000000" + name, "ended_at": None,
                "state": {"r": "running", "w": "pending", "t": "running"}[state],
                "tags": [TAG] if state == "t" else []})
    return found


class Surplus(unittest.TestCase):
    def test_a_pool_asks_for_what_it_lacks_to_its_share(self):
        for pools, waiting, asked in (
            (dict(a="rrrr", b="wwww"), 4, 2),
            (dict(a="rrrr", b="wwww"), 1, 1),
            (dict(a="rrrr"), 4, 2),
            (dict(a="rrr", b="www"), 3, 1),
            (dict(a="rrr", b="rr", c="ww"), 2, 1),
            (dict(a="rr", b="rrw"), 1, 0),
            # What is promised already comes by itself.
            (dict(a="rrtt", b="ww"), 2, 0),
            # Each has at least one.
            (dict(a="r", b="w"), 1, 0),
            (dict(a="r", b="r", c="w"), 1, 0),
        ):
            own = "pool-0000000" + ("c" if "c" in pools else "b")
            self.assertEqual(len(surplus(rows(**pools), own, waiting)), asked, pools)

    def test_other_experiments_of_such_a_name_are_no_workers(self):
        other = dict(rows(a="rrrr")[0], collection="pool-party")
        self.assertEqual(surplus([other] * 4, "pool-0000000b", 4), [])


if __name__ == "__main__":
    unittest.main()
