-- state.db, version 5. Never change this file: add a step.
--
-- Notices that people are to be told of, until every delivery of them is made; deliveries, those
-- that came to their end for a while; and the bytes of deliveries until they come to their end.

CREATE TABLE notice (
  id INTEGER PRIMARY KEY,
  content BLOB NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO seal VALUES ('notice', 0, 0);
CREATE TRIGGER notice_added AFTER INSERT ON notice BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'notice'; END;
CREATE TRIGGER notice_changed AFTER UPDATE ON notice BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'notice'; END;
CREATE TRIGGER notice_removed AFTER DELETE ON notice BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'notice'; END;

CREATE TABLE delivery (
  id INTEGER PRIMARY KEY,
  content BLOB NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO seal VALUES ('delivery', 0, 0);
CREATE TRIGGER delivery_added AFTER INSERT ON delivery BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'delivery'; END;
CREATE TRIGGER delivery_changed AFTER UPDATE ON delivery BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'delivery'; END;
CREATE TRIGGER delivery_removed AFTER DELETE ON delivery BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'delivery'; END;

CREATE TABLE letter (
  delivery INTEGER PRIMARY KEY,
  bytes BLOB NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO seal VALUES ('letter', 0, 0);
CREATE TRIGGER letter_added AFTER INSERT ON letter BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'letter'; END;
CREATE TRIGGER letter_changed AFTER UPDATE ON letter BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'letter'; END;
CREATE TRIGGER letter_removed AFTER DELETE ON letter BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'letter'; END;
