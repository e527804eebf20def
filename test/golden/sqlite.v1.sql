BEGIN TRANSACTION;
CREATE TABLE "tool_executor_artifacts" (
      id TEXT PRIMARY KEY,
      principal TEXT NOT NULL,
      at DOUBLE PRECISION NOT NULL,
      size DOUBLE PRECISION NOT NULL,
      about TEXT NOT NULL
    );
INSERT INTO "tool_executor_artifacts" VALUES('art_0mwsm6uth00163e9243bcce8-ln','37e955d2359e271b6669fdf509362d46c1252616f7449b303dec4c97a04b7b05',1795398969221.0,21.0,'71cc23dee89d77bb827768aef198eb6eedfc96c3874f094aa63df463d0bfb39b');
CREATE TABLE "tool_executor_artifacts_migrations" (
  migration_id integer PRIMARY KEY NOT NULL,
  created_at datetime NOT NULL DEFAULT current_timestamp,
  name VARCHAR(255) NOT NULL
);
INSERT INTO "tool_executor_artifacts_migrations" VALUES(1,'2026-11-23 01:56:09','entries_and_their_parts');
CREATE TABLE "tool_executor_artifacts_parts" (
      entry TEXT NOT NULL,
      item INTEGER NOT NULL,
      part INTEGER NOT NULL,
      bytes BLOB NOT NULL,
      PRIMARY KEY (entry, item, part)
    );
INSERT INTO "tool_executor_artifacts_parts" VALUES('art_0mwsm6uth00163e9243bcce8-ln',0,0,X'61206C61726765206F75747075742C2077686F6C65');
CREATE TABLE "tool_executor_artifacts_total" (size DOUBLE PRECISION NOT NULL);
INSERT INTO "tool_executor_artifacts_total" VALUES(21.0);
CREATE TABLE "tool_executor_checkpoints" (
      id TEXT PRIMARY KEY,
      principal TEXT NOT NULL,
      at DOUBLE PRECISION NOT NULL,
      size DOUBLE PRECISION NOT NULL,
      about TEXT NOT NULL
    );
INSERT INTO "tool_executor_checkpoints" VALUES('0mwsm6utt-00001-0ff7aba0','37e955d2359e271b6669fdf509362d46c1252616f7449b303dec4c97a04b7b05',1795398969233.0,4.0,'{"v":1,"principal":"ada","batch":"chat","callId":"c1","tool":"write","id":"0mwsm6utt-00001-0ff7aba0","at":1795398969233,"files":[{"path":"a.txt","before":"01d09d19c2139a46aebfb577780d123d7396e97201bc7ead210a2ebff8239dee","after":"7aa7a5359173d05b63cfd682e3c38487f3cb4f7f1d60659fe59fab1505977d4c","size":4,"isKept":true}]}');
CREATE TABLE "tool_executor_checkpoints_migrations" (
  migration_id integer PRIMARY KEY NOT NULL,
  created_at datetime NOT NULL DEFAULT current_timestamp,
  name VARCHAR(255) NOT NULL
);
INSERT INTO "tool_executor_checkpoints_migrations" VALUES(1,'2026-11-23 01:56:09','entries_and_their_parts');
CREATE TABLE "tool_executor_checkpoints_parts" (
      entry TEXT NOT NULL,
      item INTEGER NOT NULL,
      part INTEGER NOT NULL,
      bytes BLOB NOT NULL,
      PRIMARY KEY (entry, item, part)
    );
INSERT INTO "tool_executor_checkpoints_parts" VALUES('0mwsm6utt-00001-0ff7aba0',0,0,X'6F6C640A');
CREATE TABLE "tool_executor_checkpoints_total" (size DOUBLE PRECISION NOT NULL);
INSERT INTO "tool_executor_checkpoints_total" VALUES(4.0);
CREATE TABLE tool_executor_grants (
        principal_id TEXT NOT NULL, id TEXT NOT NULL, expires_at BIGINT, data TEXT NOT NULL,
        PRIMARY KEY (principal_id, id));
INSERT INTO "tool_executor_grants" VALUES('p_e5DDUC9V97qwYbNl5ADPQ8G-QmogG585ucXq3x9UCk','cRQw9hZOk4A9k0KLwfq4D0HiE7sZdokwfehgbUN8MDg',NULL,'{"v":1,"id":"g1","principal":"ada","tool":"write","revision":"r1","agentPath":["researcher"],"targets":["a.txt"],"answer":"ApproveForScope","grantedAt":1000}');
CREATE TABLE tool_executor_journal (
    id INTEGER PRIMARY KEY,
    hash_key TEXT NOT NULL,
    last_place BIGINT NOT NULL,
    latest_at REAL NOT NULL
  );
INSERT INTO "tool_executor_journal" VALUES(1,'b25958a0bb45dff967729c83852d7f6a68cd20df854d5f13d6b912c3e4255a15',0,0.0);
CREATE TABLE tool_executor_journal_entries (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    term BIGINT NOT NULL,
    tag TEXT NOT NULL,
    call_key TEXT,
    at REAL NOT NULL,
    reached_at REAL NOT NULL,
    principal TEXT NOT NULL,
    owner TEXT NOT NULL,
    batch TEXT,
    tool TEXT,
    call_id TEXT,
    entry TEXT NOT NULL
  );
INSERT INTO "tool_executor_journal_entries" VALUES(1,1,'Arrived','9f86d081:2c26b46b',1000.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Arrived","at":1000,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","class":"SerialMut","revision":"r1","args":{"_tag":"Full","value":{"path":"a.txt","token":"[redacted]"}},"targets":["/repo/a.txt"],"span":{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7"}}');
INSERT INTO "tool_executor_journal_entries" VALUES(2,1,'Arrived','9f86d081:2c26b46b',1000.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Arrived","at":1000,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","args":{"_tag":"Hash","hash":"2cf24dba"},"isRefused":true}');
INSERT INTO "tool_executor_journal_entries" VALUES(3,1,'Arrived','9f86d081:2c26b46b',1000.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Arrived","at":1000,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","args":{"_tag":"None"},"isResumed":true}');
INSERT INTO "tool_executor_journal_entries" VALUES(4,1,'Decided','9f86d081:2c26b46b',1001.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Decided","at":1001,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","verdict":"refused","gate":"Rules","sentence":"write_file needs read_file first."}');
INSERT INTO "tool_executor_journal_entries" VALUES(5,1,'Asked','9f86d081:2c26b46b',1100.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Asked","at":1100,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","requestId":"req_1","why":"it changes files","expiresAt":"unlimited","shown":"ab12","preview":"--- a\n+++ b\n"}');
INSERT INTO "tool_executor_journal_entries" VALUES(6,1,'Asked','9f86d081:2c26b46b',1100.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Asked","at":1100,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","requestId":"req_2","why":"it changes files","expiresAt":601100,"shown":"ab12"}');
INSERT INTO "tool_executor_journal_entries" VALUES(7,1,'Answered','9f86d081:2c26b46b',1300.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Answered","at":1300,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","requestId":"req_1","answer":"ApproveForDuration","by":"user","person":"grace","grant":{"id":"grant_1","expiresAt":3601300},"isEdited":true}');
INSERT INTO "tool_executor_journal_entries" VALUES(8,1,'Answered','9f86d081:2c26b46b',1300.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Answered","at":1300,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","requestId":"req_2","answer":"Deny","by":"user","reason":"not this one"}');
INSERT INTO "tool_executor_journal_entries" VALUES(9,1,'Answered','9f86d081:2c26b46b',1300.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Answered","at":1300,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","requestId":"req_3","answer":"withdrawn","by":"withdrawn"}');
INSERT INTO "tool_executor_journal_entries" VALUES(10,1,'Started','9f86d081:2c26b46b',1400.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Started","at":1400,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","attempt":1,"limitMillis":120000,"idempotencyKey":"i1","mutates":true,"allowedBy":"grant_1","isEdited":true,"reservation":{"id":"res_1","epoch":3}}');
INSERT INTO "tool_executor_journal_entries" VALUES(11,1,'Started','9f86d081:2c26b46b',2400.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Started","at":2400,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","attempt":2,"limitMillis":"unlimited","idempotencyKey":"i1","mutates":true,"allowedBy":"policy"}');
INSERT INTO "tool_executor_journal_entries" VALUES(12,1,'Committed','9f86d081:2c26b46b',1500.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Committed","at":1500,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","commits":1}');
INSERT INTO "tool_executor_journal_entries" VALUES(13,1,'Settled','9f86d081:2c26b46b',1650.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Settled","at":1650,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","outcome":{"_tag":"Succeeded","callId":"call_1","tool":"write_file","index":0,"attempt":1,"queuedAt":1000,"startedAt":1400,"duration":250,"commits":1,"output":{"_tag":"Inline","value":{"bytes":12},"modelText":"{\"bytes\":12}"},"requestsContinuation":false,"hasContinueRule":false,"grant":{"id":"grant_1","principal":"ada/s1","tool":"write_file","revision":"r1","agentPath":["researcher"],"targets":["/repo/a.txt"],"answer":"ApproveForDuration","grantedAt":1300,"expiresAt":3601300}},"routes":[]}');
INSERT INTO "tool_executor_journal_entries" VALUES(14,1,'Settled','9f86d081:2c26b46b',1650.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Settled","at":1650,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","outcome":{"_tag":"Succeeded","callId":"call_1","tool":"write_file","index":0,"attempt":1,"queuedAt":1000,"startedAt":1400,"duration":250,"commits":1,"output":{"_tag":"Truncated","value":"aaaa","originalChars":4,"modelText":"aa"},"requestsContinuation":true,"hasContinueRule":false},"isIncomplete":true,"outputHash":"77af"}');
INSERT INTO "tool_executor_journal_entries" VALUES(15,1,'Settled','9f86d081:2c26b46b',1650.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Settled","at":1650,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","outcome":{"_tag":"Failed","callId":"call_1","tool":"write_file","index":0,"attempt":1,"queuedAt":1000,"startedAt":1400,"duration":250,"commits":1,"error":{"reason":"NotFound"},"origin":"handler","retryable":true,"modelText":"a.txt was not found.","requestsContinuation":false,"hasContinueRule":false}}');
INSERT INTO "tool_executor_journal_entries" VALUES(16,1,'Settled','9f86d081:2c26b46b',1650.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Settled","at":1650,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","outcome":{"_tag":"TimedOut","callId":"call_1","tool":"write_file","index":0,"attempt":1,"queuedAt":1000,"startedAt":1400,"duration":250,"commits":1,"limitMillis":120000,"which":"tool","retryable":true}}');
INSERT INTO "tool_executor_journal_entries" VALUES(17,1,'Settled','9f86d081:2c26b46b',1002.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Settled","at":1002,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","outcome":{"_tag":"Denied","callId":"call_1","tool":"write_file","index":0,"attempt":0,"queuedAt":1000,"commits":0,"reason":{"_tag":"ToolNotFound","available":["read_file"]}}}');
INSERT INTO "tool_executor_journal_entries" VALUES(18,1,'Settled','9f86d081:2c26b46b',1650.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Settled","at":1650,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","outcome":{"_tag":"Cancelled","callId":"call_1","tool":"write_file","index":0,"attempt":1,"queuedAt":1000,"startedAt":1400,"duration":250,"commits":1,"started":true,"reason":"the user pressed stop"}}');
INSERT INTO "tool_executor_journal_entries" VALUES(19,1,'Settled','9f86d081:2c26b46b',1650.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Settled","at":1650,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","outcome":{"_tag":"Skipped","callId":"call_1","tool":"write_file","index":0,"attempt":0,"queuedAt":1000,"commits":0,"because":"call_0 was refused"}}');
INSERT INTO "tool_executor_journal_entries" VALUES(20,1,'Settled','9f86d081:2c26b46b',1650.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Settled","at":1650,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","outcome":{"_tag":"Unknown","callId":"call_1","tool":"write_file","index":0,"attempt":1,"queuedAt":1000,"startedAt":1400,"duration":250,"commits":1}}');
INSERT INTO "tool_executor_journal_entries" VALUES(21,1,'Suspended','9f86d081:2c26b46b',1200.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"Suspended","at":1200,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b","reason":"the host stops"}');
INSERT INTO "tool_executor_journal_entries" VALUES(22,1,'LateWriteBlocked','9f86d081:2c26b46b',1700.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"LateWriteBlocked","at":1700,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b"}');
INSERT INTO "tool_executor_journal_entries" VALUES(23,1,'OrphanEnded','9f86d081:2c26b46b',1800.0,2400.0,'ada/s1','ada','b1','write_file','call_1','{"v":1,"_tag":"OrphanEnded","at":1800,"principal":"ada/s1","session":"k3x9","agentPath":["researcher"],"batch":"b1","process":"main","wave":2,"index":0,"callId":"call_1","tool":"write_file","key":"9f86d081:2c26b46b"}');
INSERT INTO "tool_executor_journal_entries" VALUES(24,1,'Granted',NULL,1300.0,2400.0,'ada/s1','ada',NULL,NULL,NULL,'{"v":1,"_tag":"Granted","at":1300,"principal":"ada/s1","session":"k3x9","grant":{"id":"grant_1","principal":"ada/s1","tool":"write_file","revision":"r1","agentPath":["researcher"],"targets":["/repo/a.txt"],"answer":"ApproveForDuration","grantedAt":1300,"expiresAt":3601300}}');
INSERT INTO "tool_executor_journal_entries" VALUES(25,1,'Revoked',NULL,1900.0,2400.0,'ada/s1','ada',NULL,NULL,NULL,'{"v":1,"_tag":"Revoked","at":1900,"principal":"ada/s1","session":"k3x9","grant":"grant_1","tool":"write_file"}');
INSERT INTO "tool_executor_journal_entries" VALUES(26,1,'Gap',NULL,2000.0,2400.0,'ada/s1','ada',NULL,NULL,NULL,'{"v":1,"_tag":"Gap","at":2000,"principal":"ada/s1","session":"k3x9","lost":4}');
CREATE TABLE "tool_executor_journal_migrations" (
  migration_id integer PRIMARY KEY NOT NULL,
  created_at datetime NOT NULL DEFAULT current_timestamp,
  name VARCHAR(255) NOT NULL
);
INSERT INTO "tool_executor_journal_migrations" VALUES(1,'2026-11-23 01:56:09','create_the_journal');
CREATE TABLE tool_executor_journal_terms (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    opened_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    ended_at REAL,
    last_append BIGINT NOT NULL DEFAULT 0,
    fenced_append BIGINT NOT NULL DEFAULT 0
  );
INSERT INTO "tool_executor_journal_terms" VALUES(1,1.79539896907300195304e+12,1.79539899907300195313e+12,1.79539896923799804692e+12,0,0);
CREATE TABLE tool_executor_keys (
        id TEXT PRIMARY KEY, reservation_id TEXT NOT NULL, until BIGINT, data TEXT NOT NULL);
INSERT INTO "tool_executor_keys" VALUES('_e5DDUC9quQ1AcGozoeHkH005vF8U48HS637dV_q-bpdTRx5iB4','2c409dc8-0046-4fae-880b-f6a1313f249e-0000003',1000000001000,'{"v":1,"owner":"kept-call","process":"main","untold":false,"value":"{\"v\":1,\"outcome\":{\"_tag\":\"Succeeded\",\"callId\":\"kept-call\",\"tool\":\"read\",\"index\":0,\"attempt\":1,\"queuedAt\":900,\"startedAt\":950,\"duration\":50,\"commits\":0,\"output\":{\"_tag\":\"Inline\",\"value\":{\"path\":\"a.txt\"},\"modelText\":\"{\\\"path\\\":\\\"a.txt\\\"}\"},\"requestsContinuation\":false,\"hasContinueRule\":false},\"batch\":\"chat\",\"targets\":[{\"text\":\"a.txt\"}]}"}');
INSERT INTO "tool_executor_keys" VALUES('_e5DDUC9DJHbhhwdcMEpbpxL8D41mVCOkbLsGkCTdhPgZx4K9YQ','2c409dc8-0046-4fae-880b-f6a1313f249e-0000004',NULL,'{"v":1,"owner":"running-call","process":"main","untold":true}');
INSERT INTO "tool_executor_keys" VALUES('_e5DDUC9p_E5yJBOEXYTXQxFB62cAF1vmTKyAendohOkgN5sc_k','2c409dc8-0046-4fae-880b-f6a1313f249e-0000005',NULL,'{"v":1,"owner":"started-call","process":"main","untold":false}');
CREATE TABLE tool_executor_reservations (
        id TEXT PRIMARY KEY, epoch BIGINT NOT NULL, session_id TEXT NOT NULL, batch_id TEXT, principal_id TEXT,
        key_id TEXT, data TEXT NOT NULL, expires_at BIGINT NOT NULL);
INSERT INTO "tool_executor_reservations" VALUES('2c409dc8-0046-4fae-880b-f6a1313f249e-0000004',1,'BDpxh3TFcr2KJa2-sb_NXAJWrhHOz5-cP5JdDlK-r4k',NULL,'p_e5DDUC9V97qwYbNl5ADPQ8G-QmogG585ucXq3x9UCk','_e5DDUC9DJHbhhwdcMEpbpxL8D41mVCOkbLsGkCTdhPgZx4K9YQ','{"v":1,"groups":[],"isEarly":false,"isRunning":false}',9007199254740991);
INSERT INTO "tool_executor_reservations" VALUES('2c409dc8-0046-4fae-880b-f6a1313f249e-0000005',1,'BDpxh3TFcr2KJa2-sb_NXAJWrhHOz5-cP5JdDlK-r4k','bMeBvfYn-uZoObAr_4Zh0jDu1vvXjzJLZXLnplhl9P8M','p_e5DDUC9V97qwYbNl5ADPQ8G-QmogG585ucXq3x9UCk','_e5DDUC9p_E5yJBOEXYTXQxFB62cAF1vmTKyAendohOkgN5sc_k','{"v":1,"calls":"write","generation":"2c409dc8-0046-4fae-880b-f6a1313f249e-0000002","groups":[],"isEarly":false,"isRunning":false,"startedAt":1000,"windowMillis":1000000000000}',9007199254740991);
CREATE TABLE tool_executor_scopes (
        id TEXT PRIMARY KEY, version BIGINT NOT NULL, data TEXT NOT NULL, until BIGINT);
INSERT INTO "tool_executor_scopes" VALUES('bMeBvfYn-uZoObAr_4Zh0jDu1vvXjzJLZXLnplhl9P8M',4,'{"v":1,"open":1,"generation":"2c409dc8-0046-4fae-880b-f6a1313f249e-0000002","usedAt":1000,"mutations":0,"hasRead":false,"keptUntil":0,"calls":[["read",1],["write",1]],"groups":[["read|write",{"tool":"read","holders":0,"isKept":true}]],"clocks":[]}',NULL);
INSERT INTO "tool_executor_scopes" VALUES('p_e5DDUC9V97qwYbNl5ADPQ8G-QmogG585ucXq3x9UCk',5,'{"v":1,"open":2,"generation":"2c409dc8-0046-4fae-880b-f6a1313f249e-0000001","usedAt":0,"mutations":0,"hasRead":false,"keptUntil":1000000001000,"calls":[],"groups":[],"clocks":[["read",{"running":0,"lingering":0,"endedAt":1000,"millis":1000000000000}]]}',NULL);
CREATE TABLE "tool_executor_state_migrations" (
  migration_id integer PRIMARY KEY NOT NULL,
  created_at datetime NOT NULL DEFAULT current_timestamp,
  name VARCHAR(255) NOT NULL
);
INSERT INTO "tool_executor_state_migrations" VALUES(1,'2026-11-23 01:56:08','scopes_reservations_keys_grants');
CREATE TABLE tool_executor_writes (id TEXT PRIMARY KEY, made_at BIGINT NOT NULL);
CREATE INDEX tool_executor_reservations_expiry ON tool_executor_reservations (expires_at);
CREATE INDEX tool_executor_journal_by_call_key ON tool_executor_journal_entries (call_key, place);
CREATE INDEX tool_executor_journal_by_call_id ON tool_executor_journal_entries (call_id, place);
CREATE INDEX tool_executor_journal_by_batch ON tool_executor_journal_entries (batch, place);
CREATE INDEX tool_executor_journal_by_principal ON tool_executor_journal_entries (principal, place);
CREATE INDEX tool_executor_journal_by_owner ON tool_executor_journal_entries (owner, place);
CREATE INDEX tool_executor_journal_by_tool ON tool_executor_journal_entries (tool, place);
CREATE INDEX "tool_executor_artifacts_by_principal" ON "tool_executor_artifacts" (principal);
CREATE INDEX "tool_executor_artifacts_by_time" ON "tool_executor_artifacts" (at);
CREATE INDEX "tool_executor_checkpoints_by_principal" ON "tool_executor_checkpoints" (principal);
CREATE INDEX "tool_executor_checkpoints_by_time" ON "tool_executor_checkpoints" (at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('tool_executor_journal_terms',1);
INSERT INTO "sqlite_sequence" VALUES('tool_executor_journal_entries',26);
COMMIT;
