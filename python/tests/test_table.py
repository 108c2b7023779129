"""Tables, selectors and errors, without a daemon."""

import pickle
import unittest

import neronet
from neronet.client import Experiments, Series, selector
from neronet.errors import error_of


class Tables(unittest.TestCase):
    def test_names_of_both_kinds_stay_apart(self):
        row = {"id": 1, "state": "finished", "parameters": {"lr": 0.1, "n": 2},
               "metrics": {"lr": {"last": 0.01}, "loss": {"last": "NaN"}}}
        flat = Experiments({"experiments": [row]}).flat()
        self.assertEqual(flat.columns[-4:], ["param.lr", "n", "metric.lr", "loss"])
        self.assertEqual(flat[0]["metric.lr"], 0.01)
        self.assertNotEqual(flat[0]["loss"], flat[0]["loss"])

    def test_markup_in_a_name_is_text(self):
        shown = neronet.Table([{"name": "<script>"}])._repr_html_()
        self.assertIn("&lt;script&gt;", shown)
        self.assertNotIn("<script>", shown)

    def test_long_tables_say_what_they_leave_out(self):
        table = neronet.Table([{"n": n} for n in range(250)])
        self.assertIn("… and 50 more rows", repr(table))
        self.assertEqual(len(table[100:]), 150)
        self.assertEqual(table.column("n")[249], 249)
        with self.assertRaises(KeyError):
            table.column("m")

    def test_series_have_a_row_for_each_point(self):
        series = Series({"series": [{"id": 1, "run": "1.1", "name": "loss", "steps": [1, 2],
                                     "values": [0.5, "Infinity"], "times": ["a", "b"]}]})
        self.assertEqual(series.long().column("value"), [0.5, float("inf")])


class Selectors(unittest.TestCase):
    def test_numbers_rows_and_lists_pick(self):
        self.assertEqual(selector("tmod<1h"), "tmod<1h")
        self.assertEqual(selector([144, {"id": 7}, "crashed"]), "144,7,crashed")
        self.assertEqual(selector(n for n in (1, 2)), "1,2")

    def test_nothing_is_never_everything(self):
        for nothing in (None, [], True, [None]):
            with self.assertRaises(TypeError):
                selector(nothing)


class Errors(unittest.TestCase):
    def test_exit_codes_are_exceptions(self):
        told = {"what": "no experiment 9", "causes": ["it was never added"], "hint": "neroman add",
                "exit_code": 2, "report": None}
        error = error_of(told, 2)
        self.assertIsInstance(error, neronet.BadInput)
        self.assertIsInstance(error, ValueError)
        self.assertEqual(str(error),
                         "no experiment 9\ncaused by: it was never added\nhint: neroman add")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.hint), (neronet.BadInput, "neroman add"))


if __name__ == "__main__":
    unittest.main()
