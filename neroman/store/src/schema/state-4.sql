-- state.db, version 4. Never change this file: add a step.
--
-- Everything that was ever written into a cell of a table that experiments come from. A cell is
-- named by its experiment and the heading of its column; `part` counts up where many values were
-- written, so that one more changes a short row.

CREATE TABLE cell (
  experiment INTEGER NOT NULL,
  heading TEXT NOT NULL,
  part INTEGER NOT NULL,
  content BLOB NOT NULL,
  crc INTEGER NOT NULL,
  PRIMARY KEY (experiment, heading, part)
) WITHOUT ROWID;
INSERT INTO seal VALUES ('cell', 0, 0);
CREATE TRIGGER cell_added AFTER INSERT ON cell BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'cell'; END;
CREATE TRIGGER cell_changed AFTER UPDATE ON cell BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'cell'; END;
CREATE TRIGGER cell_removed AFTER DELETE ON cell BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'cell'; END;
