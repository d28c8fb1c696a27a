-- Portfolios: their ledger, what is held, and the answers to creates that may be sent again.
-- Owner: services/portfolios (writer); nobody else reads them.
--
-- Every write locks the row of its portfolio first, so writers of one portfolio take turns and each sees all that
-- was written before it. `version` grows by one with every write: whoever keeps something that was derived from a
-- portfolio keeps it under the version.

CREATE TABLE portfolios (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
  version bigint NOT NULL DEFAULT 1,
  entry_count integer NOT NULL DEFAULT 0 CHECK (entry_count >= 0),
  transaction_count integer NOT NULL DEFAULT 0 CHECK (transaction_count >= 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE INDEX portfolios_of_account ON portfolios (account_id, created_at, id);

-- What is held. Units that were added by hand or by an import stand in added_quantity, the sum of an item's
-- transactions in ledger_quantity of one entry of the item.
CREATE TABLE portfolio_entries (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  portfolio_id uuid NOT NULL REFERENCES portfolios (id) ON DELETE CASCADE,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  item_id integer NOT NULL CHECK (item_id > 0),
  added_quantity bigint NOT NULL CHECK (added_quantity >= 0),
  ledger_quantity bigint NOT NULL DEFAULT 0 CHECK (ledger_quantity >= 0),
  source text NOT NULL CHECK (source IN ('gamestore', 'manual', 'csv')),
  gamestore_assetid text,
  float_value double precision,
  paint_seed integer,
  inspect_link text,
  name_tag text,
  stickers jsonb,
  charms jsonb,
  created_at timestamptz NOT NULL,
  CHECK (added_quantity + ledger_quantity > 0)
);

CREATE INDEX portfolio_entries_of_item ON portfolio_entries (portfolio_id, item_id);
CREATE UNIQUE INDEX portfolio_entries_of_ledger ON portfolio_entries (portfolio_id, item_id)
  WHERE ledger_quantity > 0;
CREATE UNIQUE INDEX portfolio_entries_of_asset ON portfolio_entries (portfolio_id, gamestore_assetid)
  WHERE gamestore_assetid IS NOT NULL;

-- The ledger. price and fee_amount are hundredths of the transaction's own currency.
CREATE TABLE portfolio_transactions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  portfolio_id uuid NOT NULL REFERENCES portfolios (id) ON DELETE CASCADE,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  item_id integer NOT NULL CHECK (item_id > 0),
  type text NOT NULL CHECK (type IN ('buy', 'sell')),
  quantity integer NOT NULL CHECK (quantity > 0),
  price bigint NOT NULL CHECK (price >= 0),
  currency text NOT NULL,
  date date NOT NULL,
  fee_amount bigint CHECK (fee_amount >= 0),
  fee_percentage double precision CHECK (fee_percentage BETWEEN 0 AND 100),
  marketplace text CHECK (char_length(marketplace) BETWEEN 1 AND 64),
  note text CHECK (char_length(note) BETWEEN 1 AND 1000),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE INDEX portfolio_transactions_of_item ON portfolio_transactions (portfolio_id, item_id, date);
CREATE INDEX portfolio_transactions_by_date ON portfolio_transactions (portfolio_id, date, sequence);

-- Answers to creates that carried an Idempotency-Key, written together with what they created; kept for a day.
CREATE TABLE idempotency_keys (
  account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 255),
  request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
  -- What the create answered, as JSON; null while it is under way, which nobody else ever sees.
  answer text,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
