-- Webhook destinations, and what was delivered to them and by e-mail. Owners: services/accounts writes `webhooks` and
-- `accounts`, services/delivery all other tables here.
--
-- A delivery is what was decided when its event was created: label, URL, platform and body stand in it, so a later
-- change of the destination changes no delivery. Only the signing secret is that of the moment of sending. A removed
-- destination leaves its deliveries behind, hence no reference to it.

-- Null: the account wants alerts by e-mail.
ALTER TABLE accounts ADD COLUMN alert_emails_off_at timestamptz;

CREATE TABLE webhooks (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts (id),
  label text NOT NULL CHECK (char_length(label) BETWEEN 1 AND 100),
  url text NOT NULL,
  platform text NOT NULL CHECK (platform IN ('custom', 'discord', 'telegram', 'google_sheets')),
  -- Sealed for `webhooks/<id>`; opened only to sign.
  sealed_secret text NOT NULL,
  secret_last4 text NOT NULL CHECK (char_length(secret_last4) = 4),
  is_active boolean NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX webhooks_of_account ON webhooks (account_id, id DESC);

-- How a destination has answered lately; no row: nothing was sent yet.
CREATE TABLE webhook_health (
  endpoint_id uuid PRIMARY KEY,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  last_failure_message text,
  -- Until then it is served among the slow ones.
  slow_until timestamptz
);

-- pending -> succeeded | failed; a redelivery leads back to pending. Pending without next_attempt_at: its destination is
-- paused.
CREATE TABLE webhook_deliveries (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts (id),
  event_id uuid NOT NULL,
  event_type text NOT NULL,
  -- The event as sent to custom destinations; a redelivery to another platform is made of it.
  event text NOT NULL,
  is_test boolean NOT NULL,
  endpoint_id uuid NOT NULL,
  endpoint_label text NOT NULL,
  endpoint_url text NOT NULL,
  platform text NOT NULL,
  -- The bytes that are sent and signed.
  body text NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
  attempt_count integer NOT NULL DEFAULT 0,
  -- Attempts of this round that came to an end without success; the retry schedule goes by it.
  failures integer NOT NULL DEFAULT 0,
  last_http_status integer,
  error text,
  next_attempt_at timestamptz,
  created_at timestamptz NOT NULL,
  completed_at timestamptz,
  UNIQUE (event_id, endpoint_id),
  CHECK ((status = 'pending') = (completed_at IS NULL)),
  CHECK (status = 'pending' OR next_attempt_at IS NULL)
);
CREATE INDEX webhook_deliveries_of_account ON webhook_deliveries (account_id, id DESC);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);

-- pending: under way, or cut off by the death of its process, which the next attempt finds out.
CREATE TABLE webhook_attempts (
  delivery_id uuid NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE,
  attempt_number integer NOT NULL CHECK (attempt_number > 0),
  status text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
  http_status integer,
  error text,
  response_body_excerpt text CHECK (octet_length(response_body_excerpt) <= 1024),
  created_at timestamptz NOT NULL,
  completed_at timestamptz,
  PRIMARY KEY (delivery_id, attempt_number)
);

-- The one e-mail of an event. The address is read from the account when it is sent.
CREATE TABLE email_deliveries (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts (id),
  event_id uuid NOT NULL UNIQUE,
  status text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
  attempt_count integer NOT NULL DEFAULT 0,
  error text,
  next_attempt_at timestamptz,
  created_at timestamptz NOT NULL,
  completed_at timestamptz,
  CHECK ((status = 'pending') = (completed_at IS NULL)),
  CHECK (status = 'pending' OR next_attempt_at IS NULL)
);
CREATE INDEX email_deliveries_by_age ON email_deliveries (created_at);
