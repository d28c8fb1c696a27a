-- Lineages of keys: what their limits are counted for. Owner: services/accounts (writer).
--
-- A reissued key is of the lineage of the key that it replaces, and a new child key goes on with a lineage that has ended. So
-- keys that are replaced go on counting where those before them ended. Null: the key's own id, as every key counted before.

ALTER TABLE api_keys
  ADD COLUMN lineage_id uuid,
  ADD COLUMN is_reissue boolean NOT NULL DEFAULT false;

-- Keys of an account: its children, their lineages, and how often they were reissued.
CREATE INDEX api_keys_of_account ON api_keys (account_id, created_at);
