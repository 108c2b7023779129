-- series.db, version 2. Never change this file: add a step.
--
-- `block` holds the points of a series from its point number `first` on, counted from 0, as
-- `block.rs` writes them. Points that came before version 2 stay in `point` and `span`, which
-- get no more rows; the blocks of their series begin behind them.

CREATE TABLE block (
  series INTEGER NOT NULL,
  first INTEGER NOT NULL,
  points BLOB NOT NULL,
  crc INTEGER NOT NULL,
  PRIMARY KEY (series, first)
) WITHOUT ROWID;
INSERT INTO seal VALUES ('block', 0, 0);
CREATE TRIGGER block_added AFTER INSERT ON block BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'block'; END;
CREATE TRIGGER block_changed AFTER UPDATE ON block BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'block'; END;
CREATE TRIGGER block_removed AFTER DELETE ON block BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'block'; END;
