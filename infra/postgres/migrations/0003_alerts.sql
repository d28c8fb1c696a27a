-- Alerts, what they triggered, and the outbox through which rules reach the log. Owner: services/accounts (writer).
--
-- `version` grows with every change of an alert, so a trigger names exactly the state that it saw. A row of `outbox`
-- is written in the transaction of the change that it tells, and deleted once the log holds it. An account with
-- alerts cannot be deleted past them: the log must hear of their removal first.

CREATE TABLE alerts (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts (id),
  item_id integer NOT NULL,
  market_hash_name text NOT NULL,
  phase text,
  kind text NOT NULL CHECK (kind IN ('price_below', 'price_above', 'spread_exceeds')),
  -- Without a fixed scale: it keeps the places that its owner wrote.
  threshold_value numeric NOT NULL CHECK (threshold_value > 0),
  -- Null for spreads, which are percentages.
  threshold_currency text,
  is_enabled boolean NOT NULL,
  version bigint NOT NULL CHECK (version > 0),
  last_triggered_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((kind = 'spread_exceeds') = (threshold_currency IS NULL))
);

-- Ids are UUIDs of version 7: their order is that of creation.
CREATE INDEX alerts_of_account ON alerts (account_id, id DESC);
CREATE INDEX alerts_enabled_of_account ON alerts (account_id) WHERE is_enabled;

-- What an alert told when it fired; outlives the alert.
CREATE TABLE alert_events (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts (id),
  alert_id uuid NOT NULL,
  -- The version of the alert that fired; it is disabled from the next on.
  alert_version bigint NOT NULL,
  item_id integer NOT NULL,
  market_hash_name text NOT NULL,
  phase text,
  kind text NOT NULL,
  threshold_value numeric NOT NULL,
  threshold_currency text,
  triggered_value numeric NOT NULL,
  triggered_currency text,
  best_ask_micro_usd bigint NOT NULL,
  best_bid_micro_usd bigint,
  ask_provider text NOT NULL,
  bid_provider text,
  reason text NOT NULL,
  created_at timestamptz NOT NULL,
  -- An alert fires once per version, whatever is repeated.
  UNIQUE (alert_id, alert_version)
);

CREATE INDEX alert_events_of_account ON alert_events (account_id, id DESC);
CREATE INDEX alert_events_by_age ON alert_events (created_at);

CREATE TABLE outbox (
  id bigserial PRIMARY KEY,
  -- Name of the topic in the catalogue, without a namespace.
  topic text NOT NULL,
  key text NOT NULL,
  -- What decides the partition.
  partition_key text NOT NULL,
  -- The event's members; null removes the key from a compacted topic.
  payload jsonb,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- How far a consumer whose effects stand in this database has come, written in the transaction of those effects.
CREATE TABLE consumer_positions (
  consumer text NOT NULL,
  topic text NOT NULL,
  partition integer NOT NULL,
  next bigint NOT NULL,
  PRIMARY KEY (consumer, topic, partition)
);
