-- Sign-in: who an account is, its addresses, its sessions, its linked platform account. Owner: services/accounts.
--
-- Tokens and codes are stored as SHA-256 only; what must be read again is sealed with the key of the environment.
-- Whatever is used once has a moment of use, set by the statement that uses it: of two uses one finds it unset.

ALTER TABLE accounts
  ADD COLUMN email text CHECK (char_length(email) BETWEEN 3 AND 254),
  ADD COLUMN email_verified_at timestamptz,
  ADD CHECK (email_verified_at IS NULL OR email IS NOT NULL);

-- Who may sign in to an account: a subject of an OpenID provider.
CREATE TABLE identities (
  issuer text NOT NULL,
  subject text NOT NULL,
  account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (issuer, subject)
);

-- Sign-ins under way. `provider`: begun -> returned (account known, code issued) -> exchanged.
-- `platform`: begun by an account -> returned.
CREATE TABLE sign_ins (
  id uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('provider', 'platform')),
  state_hash bytea NOT NULL UNIQUE,
  -- Of the cookie of the browser that began.
  browser_hash bytea NOT NULL,
  -- PKCE verifier and nonce; null for the platform.
  sealed_checks text,
  account_id uuid REFERENCES accounts (id) ON DELETE CASCADE,
  code_hash bytea UNIQUE,
  begun_at timestamptz NOT NULL,
  -- Of what is due next: the return, then the exchange.
  expires_at timestamptz NOT NULL,
  returned_at timestamptz,
  exchanged_at timestamptz
);
CREATE INDEX sign_ins_by_expiry ON sign_ins (expires_at);

-- Links that prove an address.
CREATE TABLE email_links (
  token_hash bytea PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  email text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at timestamptz
);
CREATE INDEX email_links_of_account ON email_links (account_id, created_at);
CREATE INDEX email_links_by_expiry ON email_links (expires_at);

-- A session is a family of refresh tokens of which the newest alone is good.
CREATE TABLE sessions (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE refresh_tokens (
  hash bytea PRIMARY KEY,
  session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  issued_at timestamptz NOT NULL,
  -- A second use tells that a copy of the token is abroad.
  used_at timestamptz
);
CREATE INDEX refresh_tokens_of_session ON refresh_tokens (session_id);

-- Keys that sign session tokens: signing until retires_at, published until expires_at.
CREATE TABLE signing_keys (
  id text PRIMARY KEY,
  public_key jsonb NOT NULL,
  sealed_private_key text NOT NULL,
  created_at timestamptz NOT NULL,
  retires_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);

-- The account on the game's platform whose inventory an account may read.
CREATE TABLE platform_links (
  account_id uuid PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
  platform_id text NOT NULL CHECK (platform_id ~ '^[0-9]{17}$'),
  linked_at timestamptz NOT NULL
);

-- Active child keys of a root, oldest first.
CREATE INDEX api_keys_active_children ON api_keys (root_key_id, created_at) WHERE kind = 'child' AND revoked_at IS NULL;
