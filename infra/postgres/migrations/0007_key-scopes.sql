-- What a child key may do. Owner: services/accounts (writer).
--
-- Null: everything that a key of its tier may. The names are those of schemas/api/scopes.ts.

ALTER TABLE api_keys
  ADD COLUMN scopes text[] CHECK (
    scopes IS NULL OR (
      kind = 'child' AND cardinality(scopes) > 0
      AND scopes <@ ARRAY['market:read', 'feeds', 'portfolio', 'alerts', 'webhooks']
    )
  );

-- Ending all sessions of an account.
CREATE INDEX sessions_of_account ON sessions (account_id) WHERE revoked_at IS NULL;
