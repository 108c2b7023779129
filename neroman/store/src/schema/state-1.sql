-- state.db, version 1. Never change this file: add a step.
--
-- Every table ends with `crc`, the CRC-32C of the row's other columns and of
-- the table's name. `seal` holds how many rows a table has and the sum of their
-- checksums, so that a row that vanished is noticed, too.

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

CREATE TABLE source (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  file TEXT NOT NULL,
  folder TEXT NOT NULL,
  digest TEXT NOT NULL,
  mtime_ns INTEGER NOT NULL,
  kept BLOB NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO seal VALUES ('source', 0, 0);
CREATE TRIGGER source_added AFTER INSERT ON source BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'source'; END;
CREATE TRIGGER source_changed AFTER UPDATE ON source BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'source'; END;
CREATE TRIGGER source_removed AFTER DELETE ON source BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'source'; END;

CREATE TABLE experiment (
  id INTEGER PRIMARY KEY,
  collection TEXT NOT NULL,
  name TEXT NOT NULL,
  definition TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  source INTEGER,
  path TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  modified_ms INTEGER NOT NULL,
  hidden_ms INTEGER,
  gone INTEGER NOT NULL,
  kept BLOB NOT NULL,
  crc INTEGER NOT NULL
);
CREATE UNIQUE INDEX experiment_name ON experiment (collection, name) WHERE hidden_ms IS NULL;
INSERT INTO seal VALUES ('experiment', 0, 0);
CREATE TRIGGER experiment_added AFTER INSERT ON experiment BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'experiment'; END;
CREATE TRIGGER experiment_changed AFTER UPDATE ON experiment BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'experiment'; END;
CREATE TRIGGER experiment_removed AFTER DELETE ON experiment BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'experiment'; END;

CREATE TABLE run (
  key INTEGER PRIMARY KEY,
  experiment INTEGER NOT NULL,
  number INTEGER NOT NULL,
  token BLOB NOT NULL UNIQUE,
  node TEXT NOT NULL,
  tree BLOB,
  created_ms INTEGER NOT NULL,
  made BLOB NOT NULL,
  crc INTEGER NOT NULL,
  UNIQUE (experiment, number)
);
INSERT INTO seal VALUES ('run', 0, 0);
CREATE TRIGGER run_added AFTER INSERT ON run BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'run'; END;
CREATE TRIGGER run_changed AFTER UPDATE ON run BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'run'; END;
CREATE TRIGGER run_removed AFTER DELETE ON run BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'run'; END;

CREATE TABLE run_spec (
  run INTEGER PRIMARY KEY,
  spec BLOB NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO seal VALUES ('run_spec', 0, 0);
CREATE TRIGGER run_spec_added AFTER INSERT ON run_spec BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'run_spec'; END;
CREATE TRIGGER run_spec_changed AFTER UPDATE ON run_spec BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'run_spec'; END;
CREATE TRIGGER run_spec_removed AFTER DELETE ON run_spec BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'run_spec'; END;

CREATE TABLE run_desk (
  run INTEGER PRIMARY KEY,
  wish_ms INTEGER,
  desk BLOB NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO seal VALUES ('run_desk', 0, 0);
CREATE TRIGGER run_desk_added AFTER INSERT ON run_desk BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'run_desk'; END;
CREATE TRIGGER run_desk_changed AFTER UPDATE ON run_desk BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'run_desk'; END;
CREATE TRIGGER run_desk_removed AFTER DELETE ON run_desk BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'run_desk'; END;

CREATE TABLE run_facts (
  run INTEGER PRIMARY KEY,
  phase TEXT NOT NULL,
  submitted_ms INTEGER,
  started_ms INTEGER,
  ended_ms INTEGER,
  facts BLOB NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO seal VALUES ('run_facts', 0, 0);
CREATE TRIGGER run_facts_added AFTER INSERT ON run_facts BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'run_facts'; END;
CREATE TRIGGER run_facts_changed AFTER UPDATE ON run_facts BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'run_facts'; END;
CREATE TRIGGER run_facts_removed AFTER DELETE ON run_facts BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'run_facts'; END;

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

CREATE TABLE rule (
  id INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,
  experiment INTEGER,
  action TEXT NOT NULL,
  text TEXT NOT NULL,
  author TEXT NOT NULL,
  origin TEXT NOT NULL,
  repeat_ms INTEGER NOT NULL,
  active INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  crc INTEGER NOT NULL
);
INSERT INTO seal VALUES ('rule', 0, 0);
CREATE TRIGGER rule_added AFTER INSERT ON rule BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'rule'; END;
CREATE TRIGGER rule_changed AFTER UPDATE ON rule BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'rule'; END;
CREATE TRIGGER rule_removed AFTER DELETE ON rule BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'rule'; END;

CREATE TABLE rule_state (
  run INTEGER NOT NULL,
  rule INTEGER NOT NULL,
  fired INTEGER NOT NULL,
  last_fired_ms INTEGER,
  last_values TEXT NOT NULL,
  bound TEXT NOT NULL,
  problem TEXT NOT NULL,
  crc INTEGER NOT NULL,
  PRIMARY KEY (run, rule)
) WITHOUT ROWID;
INSERT INTO seal VALUES ('rule_state', 0, 0);
CREATE TRIGGER rule_state_added AFTER INSERT ON rule_state BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'rule_state'; END;
CREATE TRIGGER rule_state_changed AFTER UPDATE ON rule_state BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'rule_state'; END;
CREATE TRIGGER rule_state_removed AFTER DELETE ON rule_state BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'rule_state'; END;

CREATE TABLE request (
  id BLOB PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  reply BLOB NOT NULL,
  crc INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO seal VALUES ('request', 0, 0);
CREATE TRIGGER request_added AFTER INSERT ON request BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'request'; END;
CREATE TRIGGER request_changed AFTER UPDATE ON request BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'request'; END;
CREATE TRIGGER request_removed AFTER DELETE ON request BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'request'; END;

CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  experiment INTEGER NOT NULL,
  run INTEGER,
  at_ms INTEGER NOT NULL,
  text TEXT NOT NULL,
  crc INTEGER NOT NULL
);
CREATE INDEX event_experiment ON event (experiment);
INSERT INTO seal VALUES ('event', 0, 0);
CREATE TRIGGER event_added AFTER INSERT ON event BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'event'; END;
CREATE TRIGGER event_changed AFTER UPDATE ON event BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'event'; END;
CREATE TRIGGER event_removed AFTER DELETE ON event BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'event'; END;

CREATE TABLE node (
  name TEXT PRIMARY KEY,
  contact_ms INTEGER,
  description BLOB NOT NULL,
  crc INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO seal VALUES ('node', 0, 0);
CREATE TRIGGER node_added AFTER INSERT ON node BEGIN UPDATE seal SET rows = rows + 1, sum = sum + NEW.crc WHERE tbl = 'node'; END;
CREATE TRIGGER node_changed AFTER UPDATE ON node BEGIN UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'node'; END;
CREATE TRIGGER node_removed AFTER DELETE ON node BEGIN UPDATE seal SET rows = rows - 1, sum = sum - OLD.crc WHERE tbl = 'node'; END;

