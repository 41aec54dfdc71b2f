-- Version 5 of the tables, with answers and a task about two sets of pictures: owner c81d52ff342143b4.85L-neX7u9whJxrQ88vTu1plfZcfHQY6RwYMOYu2TWE, rater RBYY-0CZ8-JB4T-3EHT-H7KM; of sets: owner f2cdf2c54fdd6653.qP2NBjaatfYqGbfXXRvUJjuCDrijY4_RwUYtjIf8rZo, link VnDWflsTWowKehw_PVEVKclC, rater 1F7H-Z3BH-QQT8-4CB7-QRQD.
BEGIN TRANSACTION;
CREATE TABLE answers ( id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, rater_id INTEGER NOT NULL, item_id INTEGER NOT
NULL, task_version INTEGER NOT NULL, client_id VARCHAR(64) NOT NULL, kind VARCHAR(8) NOT NULL, choices JSON NOT NULL,
duration_ms INTEGER NOT NULL, at_ms BIGINT NOT NULL, withdraws INTEGER, UNIQUE (rater_id, client_id), FOREIGN
KEY(rater_id) REFERENCES raters (id), FOREIGN KEY(item_id) REFERENCES items (id), UNIQUE (withdraws), FOREIGN
KEY(withdraws) REFERENCES answers (id) );
INSERT INTO "answers" VALUES(1,1,2,1,'88cb9142cff5463e9b97224fc399573a','answer','{"left": "feminine", "right": "masculine"}',500,1795600000000,NULL);
INSERT INTO "answers" VALUES(2,2,5,1,'answer-of-sets-1','answer','{"sets": "left", "count": "3"}',800,1795600000000,NULL);
INSERT INTO "answers" VALUES(3,2,4,1,'answer-of-sets-2','answer','{"sets": "alike", "count": "2"}',800,1795600000000,NULL);
CREATE TABLE assignments ( id INTEGER NOT NULL, rater_id INTEGER NOT NULL, item_id INTEGER NOT NULL, token VARCHAR(43)
NOT NULL, state VARCHAR(16) NOT NULL, task_version INTEGER NOT NULL, since_ms BIGINT NOT NULL, PRIMARY KEY (id),
UNIQUE (rater_id, item_id), FOREIGN KEY(rater_id) REFERENCES raters (id), FOREIGN KEY(item_id) REFERENCES items (id),
UNIQUE (token) );
INSERT INTO "assignments" VALUES(1,1,2,'_YfgXS1L3Pcz3_GrnBycRzrTGQHI2rUz','answered',1,1795600000000);
INSERT INTO "assignments" VALUES(2,1,1,'2yL8-AHBt4zqHcUSXQH1g8-rFrq_iDxT','shown',1,1795600000000);
INSERT INTO "assignments" VALUES(3,2,5,'Et8ABs1V1cDb7vlx9aIEnoluSJveT2LG','answered',1,1795600000000);
INSERT INTO "assignments" VALUES(4,2,4,'f57dcwanFl0p70AUc2pYH1AL49KUeEjE','answered',1,1795600000000);
CREATE TABLE crowd_ids ( rater_id INTEGER NOT NULL, participant VARCHAR(64) NOT NULL, study VARCHAR(64) NOT NULL,
session VARCHAR(64) NOT NULL, PRIMARY KEY (rater_id), FOREIGN KEY(rater_id) REFERENCES raters (id) );
CREATE TABLE deletions ( id INTEGER NOT NULL, task_id VARCHAR(24) NOT NULL, rater VARCHAR(24) NOT NULL, n_answers
INTEGER NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY (id), FOREIGN KEY(task_id) REFERENCES tasks (id) );
CREATE TABLE items ( id INTEGER NOT NULL, task_id VARCHAR(24) NOT NULL, picture VARCHAR(64) NOT NULL, image_id TEXT
NOT NULL, identities JSON NOT NULL, gold JSON, question TEXT NOT NULL, n_claims INTEGER NOT NULL, PRIMARY KEY (id),
FOREIGN KEY(task_id) REFERENCES tasks (id) );
INSERT INTO "items" VALUES(1,'c81d52ff342143b4','c64a5071932f8fcaf495e9c3be26ddb448b9c96eb021254565334a928e7e5aba','picture-0','{"left": "nurse 0", "right": "CEO"}',NULL,'',1);
INSERT INTO "items" VALUES(2,'c81d52ff342143b4','435735911a3f100fce090c23d093cfceceb62c7ee7edd19586c4c2a689a5c50d','picture-1','{"left": "nurse 1", "right": "CEO"}',NULL,'',1);
INSERT INTO "items" VALUES(3,'c81d52ff342143b4','fd72a7178e3a01e3a772028c5d0895977b6bb9b57785469e30d6d611864365f4','picture-2','{"left": "nurse 2", "right": "CEO"}',NULL,'',0);
INSERT INTO "items" VALUES(4,'f2cdf2c54fdd6653','54847672689a5b83bfc76f60e2b2b34716d0f7c5a7e0b4804bc94c3cb8fc3601','pair-1','{"sets": "", "count": "left"}',NULL,'',1);
INSERT INTO "items" VALUES(5,'f2cdf2c54fdd6653','edda3c3a014741eb776eada4ff0b6756db261e925a6e31ce63c2a3dc72bb3657','pair-2','{"sets": "", "count": "right"}',NULL,'',1);
INSERT INTO "items" VALUES(6,'f2cdf2c54fdd6653','086efa1d5fbd067054ef68ff7233b4f23738a531fe2b5f474ba1975a9e6c0b85','check-1','{"sets": "", "count": "left"}','{"sets": "right", "count": "0"}','',0);
INSERT INTO "items" VALUES(7,'10285018321e4c79','47c0b232b83e0aaf92d46f39b9066c67528fc4c31fc88bc50d7d8e2291137145','rose-1','{"picture": ""}',NULL,'',0);
CREATE TABLE judgements ( item_id INTEGER NOT NULL, judge VARCHAR(300) NOT NULL, choices JSON NOT NULL, at_ms BIGINT
NOT NULL, PRIMARY KEY (item_id, judge), FOREIGN KEY(item_id) REFERENCES items (id) );
CREATE TABLE rater_facts ( rater_id INTEGER NOT NULL, facts JSON NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY
(rater_id), FOREIGN KEY(rater_id) REFERENCES raters (id) );
CREATE TABLE raters ( id INTEGER NOT NULL, task_id VARCHAR(24) NOT NULL, name VARCHAR(24) NOT NULL, code_hash
VARCHAR(64) NOT NULL, joined_ms BIGINT NOT NULL, seed INTEGER DEFAULT '0' NOT NULL, excluded_ms BIGINT, PRIMARY KEY
(id), FOREIGN KEY(task_id) REFERENCES tasks (id), UNIQUE (name), UNIQUE (code_hash) );
INSERT INTO "raters" VALUES(1,'c81d52ff342143b4','rater-e2c2c54e497b','73d6f7ca0c424d8b6fc26de1ca34e83c73731910fc5b7b141038c572c7d8e727',1795600000000,288545018,NULL);
INSERT INTO "raters" VALUES(2,'f2cdf2c54fdd6653','rater-5a28d15829de','0c4284b0666c9668bc6bc2cdcf848c6ed0d17fd6a171f69c6ac142657107501f',1795600000000,1222356005,NULL);
CREATE TABLE schema_version ( version INTEGER NOT NULL, PRIMARY KEY (version) );
INSERT INTO "schema_version" VALUES(5);
CREATE TABLE synced ( kind VARCHAR(8) NOT NULL, row_id INTEGER NOT NULL, PRIMARY KEY (kind, row_id) );
INSERT INTO "synced" VALUES('answer',1);
INSERT INTO "synced" VALUES('answer',2);
INSERT INTO "synced" VALUES('answer',3);
CREATE TABLE task_versions ( task_id VARCHAR(24) NOT NULL, version INTEGER NOT NULL, texts JSON NOT NULL, created_ms
BIGINT NOT NULL, PRIMARY KEY (task_id, version), FOREIGN KEY(task_id) REFERENCES tasks (id) );
INSERT INTO "task_versions" VALUES('c81d52ff342143b4',1,'{"title": "How do these two people look?", "kind": "pst_paired", "questions": {"left": "Does the {} on the left demonstrate feminine or masculine traits?", "right": "Does the {} on the right demonstrate feminine or masculine traits?"}, "answers": [{"key": "feminine", "label": "looks feminine", "shortcut": "f", "whole": false, "colour": ""}, {"key": "masculine", "label": "looks masculine", "shortcut": "m", "whole": false, "colour": ""}, {"key": "cannot_identify", "label": "cannot identify", "shortcut": "c", "whole": false, "colour": ""}, {"key": "not_two_people", "label": "not exactly two people", "shortcut": "n", "whole": true, "colour": ""}], "instructions": "Look at the picture and say, for the person on the left and for the person on the right, whether each looks feminine or masculine. Judge appearance only; choose ''cannot identify'' when you can''t tell or the person is missing.\n\nSay how the person looks to you, not what they are: a picture shows appearance only. When you can''t tell, say so; that is an answer as good as any other. If the picture does not show exactly the people asked for, say that.", "consent": "You are asked what you see in pictures that a computer drew. Taking part is voluntary: you may skip a picture, take a break or stop at any time, without giving a reason. Kept are your answers, when you gave them and how long you took. Not kept are your name, your address on the network and your browser. Your answers stand under a random name; only the code that you receive leads to them, so write it down: with it you can go on on another device, or delete your answers for good. Answers may be published without that code, and copies that others made before a deletion are out of our reach.", "content_note": "The pictures were drawn by a text-to-image model. Some show stereotypes, and some may be odd or unpleasant; none shows a real person. Skip what you would rather not look at.", "raters_per_item": 3, "gold_share": 0.1, "joins_per_hour": 2000, "joins_per_address": 500, "completion_code": "", "failed_code": "", "screened_out_code": "", "about_rater": {}, "run_id": "", "attributes": {}, "sample": "", "stratified_by": "", "scale": "", "answers_at": {}, "sets": {}}',1795600000000);
INSERT INTO "task_versions" VALUES('f2cdf2c54fdd6653',1,'{"title": "Which set shows more?", "kind": "sets", "questions": {"sets": "In which set do more pictures show \u201cwhite\u201d?", "count": "Now count. How many pictures of the {} set show \u201cwhite\u201d?"}, "answers": [{"key": "left", "label": "the left set", "shortcut": "l", "whole": false, "colour": ""}, {"key": "right", "label": "the right set", "shortcut": "r", "whole": false, "colour": ""}, {"key": "alike", "label": "both alike", "shortcut": "b", "whole": false, "colour": ""}, {"key": "0", "label": "0", "shortcut": "0", "whole": false, "colour": ""}, {"key": "1", "label": "1", "shortcut": "1", "whole": false, "colour": ""}, {"key": "2", "label": "2", "shortcut": "2", "whole": false, "colour": ""}, {"key": "3", "label": "3", "shortcut": "3", "whole": false, "colour": ""}, {"key": "4", "label": "4", "shortcut": "4", "whole": false, "colour": ""}, {"key": "5", "label": "5", "shortcut": "5", "whole": false, "colour": ""}, {"key": "6", "label": "6", "shortcut": "6", "whole": false, "colour": ""}], "instructions": "You see two sets of pictures, one on the left and one on the right. Say at a glance, without counting, which of them has more pictures of what the question names. Then count in the set that you are asked about.", "consent": "You are asked what you see in pictures that a computer drew. Taking part is voluntary: you may skip a picture, take a break or stop at any time, without giving a reason. Kept are your answers, when you gave them and how long you took. Not kept are your name, your address on the network and your browser. Your answers stand under a random name; only the code that you receive leads to them, so write it down: with it you can go on on another device, or delete your answers for good. Answers may be published without that code, and copies that others made before a deletion are out of our reach.", "content_note": "The pictures were drawn by a text-to-image model. Some show stereotypes, and some may be odd or unpleasant; none shows a real person. Skip what you would rather not look at.", "raters_per_item": 3, "gold_share": 0.1, "joins_per_hour": 2000, "joins_per_address": 500, "completion_code": "", "failed_code": "", "screened_out_code": "", "about_rater": {}, "run_id": "", "attributes": {}, "sample": "", "stratified_by": "", "scale": "", "answers_at": {"sets": ["left", "right", "alike"], "count": ["0", "1", "2", "3", "4", "5", "6"]}, "sets": {"pair-1": ["extreme", "fair", 0.6666666666666666, 0.5, 6], "pair-2": ["fair", "extreme", 0.16666666666666666, 0.8333333333333334, 6]}}',1795600000000);
INSERT INTO "task_versions" VALUES('10285018321e4c79',1,'{"title": "A question about pictures", "kind": "own", "questions": {"picture": "Is it a rose?"}, "answers": [{"key": "yes", "label": "yes", "shortcut": "1", "whole": false, "colour": ""}, {"key": "no", "label": "no", "shortcut": "2", "whole": false, "colour": ""}], "instructions": "", "consent": "You are asked what you see in pictures that a computer drew. Taking part is voluntary: you may skip a picture, take a break or stop at any time, without giving a reason. Kept are your answers, when you gave them and how long you took. Not kept are your name, your address on the network and your browser. Your answers stand under a random name; only the code that you receive leads to them, so write it down: with it you can go on on another device, or delete your answers for good. Answers may be published without that code, and copies that others made before a deletion are out of our reach.", "content_note": "The pictures were drawn by a text-to-image model. Some show stereotypes, and some may be odd or unpleasant; none shows a real person. Skip what you would rather not look at.", "raters_per_item": 3, "gold_share": 0.1, "joins_per_hour": 2000, "joins_per_address": 500, "completion_code": "", "failed_code": "", "screened_out_code": "", "about_rater": {}, "run_id": "", "attributes": {}, "sample": "", "stratified_by": "", "scale": "", "answers_at": {}, "sets": {}}',1795600000000);
CREATE TABLE tasks ( id VARCHAR(24) NOT NULL, join_code VARCHAR(64) NOT NULL, owner_hash VARCHAR(64) NOT NULL, status
VARCHAR(16) NOT NULL, version INTEGER NOT NULL, created_ms BIGINT NOT NULL, hub_user VARCHAR(100) DEFAULT '' NOT NULL,
PRIMARY KEY (id), UNIQUE (join_code) );
INSERT INTO "tasks" VALUES('c81d52ff342143b4','1RJYMsm0I86rNnrSjP053zRw','45509f3ba6fef00d40c656b3c9e079897ac20f730d569bae2a9d90f09e42b331','open',1,1795600000000,'');
INSERT INTO "tasks" VALUES('f2cdf2c54fdd6653','VnDWflsTWowKehw_PVEVKclC','043b3a97bf7647d878a955cd1a07f3207b3ff0406a2d6dc137f4c3fc56b7b922','open',1,1795600000000,'4711');
INSERT INTO "tasks" VALUES('10285018321e4c79','kc8pT1sFBhhuiI6tqSA_pvLq','22175eff1e44616c75fcec3ba68f45bb41a54021c0db9833ee3baffa392cdf7c','draft',1,1795600000000,'4711');
CREATE INDEX open_items ON items (task_id, n_claims) WHERE gold IS NULL;
CREATE INDEX ix_raters_task_id ON raters (task_id);
CREATE INDEX ix_deletions_task_id ON deletions (task_id);
CREATE INDEX ix_assignments_item_id ON assignments (item_id);
CREATE INDEX ix_answers_item_id ON answers (item_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('answers',3);
PRAGMA application_id = 888723685;
PRAGMA user_version = 14;
COMMIT;
