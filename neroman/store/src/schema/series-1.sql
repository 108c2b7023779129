-- series.db, version 1. Never change this file: add a step.
--
-- `point` only ever grows at its end. Which points belong to a series is said
-- by `span`: points `first` to `last` and the CRC-32C of their content. Columns
-- without a type hold floats: whole numbers as INTEGER, others as REAL, and
-- what neither can hold (NaN, -0.0) as the 8 bytes of the float.

CREATE TABLE seal (tbl TEXT PRIMARY KEY, rows INTEGER NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value BLOB NOT NULL,
  crc INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO seal VALUES ('meta', 0, 0);
CREATE TRIGGER meta_added AFTER INSERT ON meta BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'meta'; END;
CREATE TRIGGER meta_changed AFTER UPDATE ON meta BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'meta'; END;
CREATE TRIGGER meta_removed AFTER DELETE ON meta BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'meta'; END;

CREATE TABLE segment (
  run INTEGER NOT NULL,
  id BLOB NOT NULL,
  incarnation INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  chain INTEGER NOT NULL,
  crc INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) WITHOUT ROWID;
INSERT INTO seal VALUES ('segment', 0, 0);
CREATE TRIGGER segment_added AFTER INSERT ON segment BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'segment'; END;
CREATE TRIGGER segment_changed AFTER UPDATE ON segment BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'segment'; END;
CREATE TRIGGER segment_removed AFTER DELETE ON segment BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'segment'; END;

CREATE TABLE series (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  name TEXT NOT NULL,
  points INTEGER NOT NULL,
  last,
  last_step,
  last_ms INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  min,
  max,
  crc INTEGER NOT NULL,
  UNIQUE (run, name)
);
INSERT INTO seal VALUES ('series', 0, 0);
CREATE TRIGGER series_added AFTER INSERT ON series BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'series'; END;
CREATE TRIGGER series_changed AFTER UPDATE ON series BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'series'; END;
CREATE TRIGGER series_removed AFTER DELETE ON series BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'series'; END;

CREATE TABLE sample (
  run INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  cpu_cores,
  cpu_ms INTEGER NOT NULL,
  rss_bytes INTEGER NOT NULL,
  peak_rss_bytes INTEGER NOT NULL,
  read_bytes INTEGER NOT NULL,
  written_bytes INTEGER NOT NULL,
  processes INTEGER NOT NULL,
  threads INTEGER NOT NULL,
  stdout_bytes INTEGER NOT NULL,
  stderr_bytes INTEGER NOT NULL,
  silent_ms INTEGER NOT NULL,
  crc INTEGER NOT NULL,
  PRIMARY KEY (run, time_ms, incarnation)
) WITHOUT ROWID;
INSERT INTO seal VALUES ('sample', 0, 0);
CREATE TRIGGER sample_added AFTER INSERT ON sample BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'sample'; END;
CREATE TRIGGER sample_changed AFTER UPDATE ON sample BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'sample'; END;
CREATE TRIGGER sample_removed AFTER DELETE ON sample BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'sample'; END;

CREATE TABLE span (
  series INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  content INTEGER NOT NULL,
  crc INTEGER NOT NULL,
  PRIMARY KEY (series, first)
) WITHOUT ROWID;

CREATE TABLE point (
  id INTEGER PRIMARY KEY,
  series INTEGER NOT NULL,
  step,
  time_ms INTEGER NOT NULL,
  value,
  generation INTEGER NOT NULL
);

