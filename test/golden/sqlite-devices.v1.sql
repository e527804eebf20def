PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE tool_executor_devices (
    endpoint TEXT PRIMARY KEY,
    username TEXT NOT NULL,
    p256dh TEXT NOT NULL,
    auth TEXT NOT NULL,
    added_at DOUBLE PRECISION NOT NULL
  );
INSERT INTO tool_executor_devices VALUES('https://push.example.com/send/1','ada','BPu1N4xaZOYpFxwxmoM3Iz6jRp7y8R5bU0x0uWvJx8QJx2zq1Yy8Vt0m3d1Xv9QkEw3n3aQW8z2l9m8sS1tQ0eY','MDEyMzQ1Njc4OTo7PD0-Pw',1795398969221);
INSERT INTO tool_executor_devices VALUES('https://push.example.com/send/2','bob','BPu1N4xaZOYpFxwxmoM3Iz6jRp7y8R5bU0x0uWvJx8QJx2zq1Yy8Vt0m3d1Xv9QkEw3n3aQW8z2l9m8sS1tQ0eZ','MDEyMzQ1Njc4OTo7PD0-Pw',1795398969222);
CREATE TABLE "tool_executor_devices_migrations" (
  migration_id integer PRIMARY KEY NOT NULL,
  created_at datetime NOT NULL DEFAULT current_timestamp,
  name VARCHAR(255) NOT NULL
);
INSERT INTO tool_executor_devices_migrations VALUES(1,'2026-11-23 13:37:52','devices');
CREATE INDEX tool_executor_devices_by_user ON tool_executor_devices (username, added_at);
COMMIT;
