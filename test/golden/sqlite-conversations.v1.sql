PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE "tool_executor_state_migrations" (
  migration_id integer PRIMARY KEY NOT NULL,
  created_at datetime NOT NULL DEFAULT current_timestamp,
  name VARCHAR(255) NOT NULL
);
INSERT INTO tool_executor_state_migrations VALUES(1,'2026-11-23 04:49:05','scopes_reservations_keys_grants');
INSERT INTO tool_executor_state_migrations VALUES(2,'2026-11-23 04:49:05','conversations');
CREATE TABLE tool_executor_scopes (
        id TEXT PRIMARY KEY, version BIGINT NOT NULL, data TEXT NOT NULL, until BIGINT);
INSERT INTO tool_executor_scopes VALUES('cizTbwsBetNfiXUjv6s6CRWsWzudgvK6AwVf1KjwueHs',6,'{"v":1,"open":1,"generation":"219debed-c6a8-4fb6-805d-d9b63cd11068-0000002","usedAt":1795398969221,"mutations":0,"hasRead":false,"keptUntil":0,"past":{"succeeded":["verify","draft"],"last":{"tool":"draft","routes":[{"rule":{"_tag":"Conditional","tool":"draft","path":"kind","cases":[{"equals":"letter","tool":"review"}],"scope":"session"},"tools":["review"]}],"place":{"at":1795398969221,"serial":2,"by":"executor"},"index":1}},"calls":[["draft",1],["open",1]],"groups":[["draft|write",{"tool":"draft","holders":0,"isKept":true}]],"clocks":[["draft",{"running":0,"lingering":0,"endedAt":1795398969221,"millis":1000000000000}]]}',NULL);
INSERT INTO tool_executor_scopes VALUES('bMeBvfYn-uZoObAr_4Zh0jDu1vvXjzJLZXLnplhl9P8M',4,'{"v":1,"open":1,"generation":"219debed-c6a8-4fb6-805d-d9b63cd11068-0000005","usedAt":1795398969221,"mutations":0,"hasRead":false,"keptUntil":0,"past":{"succeeded":["draft"],"last":{"tool":"draft","routes":[{"rule":{"_tag":"Conditional","tool":"draft","path":"kind","cases":[{"equals":"letter","tool":"review"}],"scope":"session"},"tools":["review"]}],"place":{"at":1795398969221,"serial":2,"by":"executor"},"index":1}},"calls":[["draft",1],["[\"main\",\"draft\"]",1],["open",1]],"groups":[],"clocks":[]}',NULL);
CREATE TABLE tool_executor_reservations (
        id TEXT PRIMARY KEY, epoch BIGINT NOT NULL, session_id TEXT NOT NULL, batch_id TEXT, principal_id TEXT,
        key_id TEXT, data TEXT NOT NULL, expires_at BIGINT NOT NULL, conversation_id TEXT);
INSERT INTO tool_executor_reservations VALUES('219debed-c6a8-4fb6-805d-d9b63cd11068-0000007',1,'j7oT2rcdb92Km52x8G6BMV37_WkWe2CX9yRgTbPJHN8','bMeBvfYn-uZoObAr_4Zh0jDu1vvXjzJLZXLnplhl9P8M',NULL,NULL,'{"v":1,"calls":"open","generation":"219debed-c6a8-4fb6-805d-d9b63cd11068-0000005","groups":[],"isEarly":false,"isRunning":false,"shared":{"generation":"219debed-c6a8-4fb6-805d-d9b63cd11068-0000002","calls":["open"],"groups":[],"clocks":[]},"startedAt":1795398969221}',4949009346069,'cizTbwsBetNfiXUjv6s6CRWsWzudgvK6AwVf1KjwueHs');
CREATE TABLE tool_executor_keys (
        id TEXT PRIMARY KEY, reservation_id TEXT NOT NULL, until BIGINT, data TEXT NOT NULL);
CREATE TABLE tool_executor_writes (id TEXT PRIMARY KEY, made_at BIGINT NOT NULL);
CREATE TABLE tool_executor_grants (
        principal_id TEXT NOT NULL, id TEXT NOT NULL, expires_at BIGINT, data TEXT NOT NULL,
        PRIMARY KEY (principal_id, id));
CREATE INDEX tool_executor_reservations_expiry ON tool_executor_reservations (expires_at);
COMMIT;
