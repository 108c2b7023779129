"""Rows that show themselves in a notebook and go to pandas or polars."""

import html
from typing import Any, Dict, Iterator, List, Optional, Sequence, overload

#: Rows that a notebook shows.
_SHOWN_MAX = 200


class Table(Sequence[Dict[str, Any]]):
    """A list of rows, each a ``dict``; columns in the order of their first use."""

    def __init__(self, rows: Sequence[Dict[str, Any]], columns: Optional[Sequence[str]] = None):
        self._rows: List[Dict[str, Any]] = list(rows)
        if columns is None:
            seen: Dict[str, None] = {}
            for row in self._rows:
                seen.update(dict.fromkeys(row))
            columns = list(seen)
        self.columns: List[str] = list(columns)

    @overload
    def __getitem__(self, index: int) -> Dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "Table": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Table(self._rows[index], self.columns)
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return iter(self._rows)

    def column(self, name: str) -> List[Any]:
        """The values of one column; ``None`` where a row has none."""
        if name not in self.columns:
            raise KeyError(name)
        return [row.get(name) for row in self._rows]

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``; needs pandas."""
        import pandas

        return pandas.DataFrame(self._rows, columns=self.columns)

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``; needs polars."""
        import polars

        return polars.DataFrame([[row.get(one) for one in self.columns] for row in self._rows],
                                schema=self.columns, orient="row")

    def __repr__(self) -> str:
        cells = [[_text(row.get(one)) for one in self.columns] for row in self._rows[:_SHOWN_MAX]]
        widths = [max([len(one)] + [len(row[at]) for row in cells])
                  for at, one in enumerate(self.columns)]
        lines = [self.columns] + cells
        shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                 for line in lines]
        return "\n".join(shown + self._left_out())

    def _repr_html_(self) -> str:
        head = "".join("<th>{}</th>".format(html.escape(one)) for one in self.columns)
        body = "".join(
            "<tr>{}</tr>".format("".join(
                "<td>{}</td>".format(html.escape(_text(row.get(one)))) for one in self.columns))
            for row in self._rows[:_SHOWN_MAX])
        note = "".join("<p>{}</p>".format(line) for line in self._left_out())
        return "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}".format(
            head, body, note)

    def _left_out(self) -> List[str]:
        more = len(self._rows) - _SHOWN_MAX
        return ["… and {} more rows".format(more)] if more > 0 else []


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "{:.6g}".format(value)
    return str(value)
