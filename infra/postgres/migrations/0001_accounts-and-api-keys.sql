-- Accounts and their API keys. Owner: services/accounts (writer); readers: every role that checks a key.
--
-- A key's text is never stored, only its SHA-256. Revocation and expiry are states of the row, never a
-- deletion, so that a revoked key can be told from an unknown one. A child key points to its root; a root
-- to itself, which makes "this key or its root" one join.

CREATE TABLE accounts (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name text CHECK (char_length(name) BETWEEN 1 AND 100),
  tier text NOT NULL CHECK (tier IN ('free', 'starter', 'pro', 'quant')),
  created_at timestamptz NOT NULL DEFAULT now(),
  disabled_at timestamptz
);

CREATE TABLE api_keys (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('root', 'child')),
  root_key_id uuid NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  name text CHECK (char_length(name) BETWEEN 1 AND 100),
  created_at timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  quota_requests_per_month_override integer CHECK (quota_requests_per_month_override > 0),
  rate_requests_per_minute_override integer CHECK (rate_requests_per_minute_override > 0),
  CHECK ((kind = 'root') = (root_key_id = id))
);

-- One active root key per account.
CREATE UNIQUE INDEX api_keys_active_root ON api_keys (account_id) WHERE kind = 'root' AND revoked_at IS NULL;

-- Revoking a root revokes its children.
CREATE INDEX api_keys_of_root ON api_keys (root_key_id) WHERE kind = 'child';
