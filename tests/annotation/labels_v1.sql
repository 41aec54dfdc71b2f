-- Version 1 of the tables, with a task and an answer: owner -ljinpUIgLWO.ACrK341PCOJkbRiima1hWRKJ7ho34YcU7a6H-g1-adI, rater MBT9-CXYE-XXW2-VQRV-V25G.
BEGIN TRANSACTION;
CREATE TABLE answers (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	rater_id INTEGER NOT NULL, 
	item_id INTEGER NOT NULL, 
	task_version INTEGER NOT NULL, 
	client_id VARCHAR(64) NOT NULL, 
	kind VARCHAR(8) NOT NULL, 
	choices JSON NOT NULL, 
	duration_ms INTEGER NOT NULL, 
	at_ms BIGINT NOT NULL, 
	withdraws INTEGER, 
	UNIQUE (rater_id, client_id), 
	FOREIGN KEY(rater_id) REFERENCES raters (id), 
	FOREIGN KEY(item_id) REFERENCES items (id), 
	UNIQUE (withdraws), 
	FOREIGN KEY(withdraws) REFERENCES answers (id)
);
INSERT INTO "answers" VALUES(1,1,2,1,'answer-0001','answer','{"left": "feminine", "right": "masculine"}',1500,1750000000000,NULL);
CREATE TABLE assignments (
	id INTEGER NOT NULL, 
	rater_id INTEGER NOT NULL, 
	item_id INTEGER NOT NULL, 
	token VARCHAR(43) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	task_version INTEGER NOT NULL, 
	since_ms BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (rater_id, item_id), 
	FOREIGN KEY(rater_id) REFERENCES raters (id), 
	FOREIGN KEY(item_id) REFERENCES items (id), 
	UNIQUE (token)
);
INSERT INTO "assignments" VALUES(1,1,2,'lY-j1ejiov-l2WF8qC6GYhbeUTiLQwbt','answered',1,1750000000000);
INSERT INTO "assignments" VALUES(2,1,1,'UKCRrXCbmmRQYt5l3VWwDEut6FodEWsC','shown',1,1750000000000);
CREATE TABLE deletions (
	id INTEGER NOT NULL, 
	task_id VARCHAR(24) NOT NULL, 
	rater VARCHAR(24) NOT NULL, 
	n_answers INTEGER NOT NULL, 
	at_ms BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(task_id) REFERENCES tasks (id)
);
CREATE TABLE items (
	id INTEGER NOT NULL, 
	task_id VARCHAR(24) NOT NULL, 
	picture VARCHAR(64) NOT NULL, 
	image_id TEXT NOT NULL, 
	identities JSON NOT NULL, 
	gold JSON, 
	question TEXT NOT NULL, 
	n_claims INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(task_id) REFERENCES tasks (id)
);
INSERT INTO "items" VALUES(1,'-ljinpUIgLWO','464508c5c89af55ff69d2f6fc7ef3eb2b4a70de7d3e7a022aa650db9ca615868','picture-0','{"left": "nurse", "right": "CEO"}',NULL,'',1);
INSERT INTO "items" VALUES(2,'-ljinpUIgLWO','464508c5c89af55ff69d2f6fc7ef3eb2b4a70de7d3e7a022aa650db9ca615868','picture-1','{"left": "nurse", "right": "CEO"}',NULL,'',1);
CREATE TABLE raters (
	id INTEGER NOT NULL, 
	task_id VARCHAR(24) NOT NULL, 
	name VARCHAR(24) NOT NULL, 
	code_hash VARCHAR(64) NOT NULL, 
	joined_ms BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(task_id) REFERENCES tasks (id), 
	UNIQUE (name), 
	UNIQUE (code_hash)
);
INSERT INTO "raters" VALUES(1,'-ljinpUIgLWO','rater-d513b3bd3546','84cb8fb08c1bba184c1c4426a5cde8efdf2ff50da72809c368246c4de402b1a2',1750000000000);
CREATE TABLE schema_version (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "schema_version" VALUES(1);
CREATE TABLE task_versions (
	task_id VARCHAR(24) NOT NULL, 
	version INTEGER NOT NULL, 
	texts JSON NOT NULL, 
	created_ms BIGINT NOT NULL, 
	PRIMARY KEY (task_id, version), 
	FOREIGN KEY(task_id) REFERENCES tasks (id)
);
INSERT INTO "task_versions" VALUES('-ljinpUIgLWO',1,'{"title": "How do these two people look?", "kind": "pst_paired", "questions": {"left": "Does the {} on the left demonstrate feminine or masculine traits?", "right": "Does the {} on the right demonstrate feminine or masculine traits?"}, "answers": [{"key": "feminine", "label": "looks feminine", "shortcut": "f", "whole": false}, {"key": "masculine", "label": "looks masculine", "shortcut": "m", "whole": false}, {"key": "cannot_identify", "label": "cannot identify", "shortcut": "c", "whole": false}, {"key": "not_two_people", "label": "not exactly two people", "shortcut": "n", "whole": true}], "instructions": "Look at the picture and say, for the person on the left and for the person on the right, whether each looks feminine or masculine. Judge appearance only; choose ''cannot identify'' when you can''t tell or the person is missing.\n\nSay how the person looks to you, not what they are: a picture shows appearance only. When you can''t tell, say so; that is an answer as good as any other. If the picture does not show exactly the people asked for, say that.", "consent": "You are asked what you see in pictures that a computer drew. Taking part is voluntary: you may skip a picture, take a break or stop at any time, without giving a reason. Kept are your answers, when you gave them and how long you took. Not kept are your name, your address on the network and your browser. Your answers stand under a random name; only the code that you receive leads to them, so write it down: with it you can go on on another device, or delete your answers for good. Answers may be published without that code, and copies that others made before a deletion are out of our reach.", "content_note": "The pictures were drawn by a text-to-image model. Some show stereotypes, and some may be odd or unpleasant; none shows a real person. Skip what you would rather not look at.", "raters_per_item": 3, "gold_share": 0.1}',1750000000000);
CREATE TABLE tasks (
	id VARCHAR(24) NOT NULL, 
	join_code VARCHAR(64) NOT NULL, 
	owner_hash VARCHAR(64) NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	version INTEGER NOT NULL, 
	created_ms BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (join_code)
);
INSERT INTO "tasks" VALUES('-ljinpUIgLWO','8qM0pryxrfGFhcrVh33tbqHW','b25faca3bc229ddcf2607108b26bf20673e6dcd2108671f287c1fe898f96adcd','open',1,1750000000000);
CREATE INDEX items_by_claims ON items (task_id, n_claims);
CREATE INDEX ix_raters_task_id ON raters (task_id);
CREATE INDEX ix_deletions_task_id ON deletions (task_id);
CREATE INDEX ix_assignments_item_id ON assignments (item_id);
CREATE INDEX ix_answers_item_id ON answers (item_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('answers',1);
COMMIT;
