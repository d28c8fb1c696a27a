-- Accounts that are exported and deleted whole, and whose sign-ins end at once. Owners: as before.
--
-- What refers to an account goes with it, but for its alerts, which the log must hear of first. Each reference has an index: a
-- deletion would otherwise read whole tables, that of keys once for each key. Pages of an export follow ids.
-- `api_keys.is_reissue` is written no more: limits belong to the lineage, so reissues are not counted.

-- Sign-ins that began before it lead nowhere.
ALTER TABLE accounts ADD COLUMN signed_out_at timestamptz;

ALTER TABLE alert_events DROP CONSTRAINT alert_events_account_id_fkey,
  ADD FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE;
ALTER TABLE webhooks DROP CONSTRAINT webhooks_account_id_fkey,
  ADD FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE;
ALTER TABLE webhook_deliveries DROP CONSTRAINT webhook_deliveries_account_id_fkey,
  ADD FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE;
ALTER TABLE email_deliveries DROP CONSTRAINT email_deliveries_account_id_fkey,
  ADD FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE;

DROP INDEX api_keys_of_root, api_keys_of_account, sessions_of_account, audit_log_of_account;
CREATE INDEX api_keys_of_root ON api_keys (root_key_id);
CREATE INDEX api_keys_of_account ON api_keys (account_id, id);
CREATE INDEX sessions_of_account ON sessions (account_id, id);
CREATE INDEX audit_log_of_account ON audit_log (account_id, id);
CREATE INDEX identities_of_account ON identities (account_id);
CREATE INDEX sign_ins_of_account ON sign_ins (account_id);
CREATE INDEX email_deliveries_of_account ON email_deliveries (account_id);
