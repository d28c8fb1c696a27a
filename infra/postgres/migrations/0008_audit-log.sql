-- What happened to accounts that matters to their safety. Owner: services/accounts (writer).
--
-- Append-only, whoever connects: of a row nothing may change but its address, which becomes a pseudonym, and a row may go
-- when it is 400 days old. It refers to no account, since it outlives them.

CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  kind text NOT NULL CHECK (kind ~ '^[a-z_]+[.][a-z_]+$'),
  account_id uuid,
  key_id uuid,
  -- Of the client. After 30 days `~` and 16 digits, which the same address has in rows that became pseudonyms at once.
  address text CHECK (char_length(address) BETWEEN 1 AND 100),
  detail jsonb NOT NULL DEFAULT '{}'
);

CREATE INDEX audit_log_of_account ON audit_log (account_id, at);
CREATE INDEX audit_log_by_age ON audit_log (at);
CREATE INDEX audit_log_of_addresses ON audit_log (at) WHERE address IS NOT NULL AND address NOT LIKE '~%';

CREATE FUNCTION keep_audit_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.at < now() - interval '400 days' THEN RETURN OLD; END IF;
  ELSIF TG_OP = 'UPDATE' THEN
    IF (NEW.address IS NULL OR NEW.address LIKE '~%')
      AND (NEW.id, NEW.at, NEW.kind, NEW.account_id, NEW.key_id, NEW.detail)
        IS NOT DISTINCT FROM (OLD.id, OLD.at, OLD.kind, OLD.account_id, OLD.key_id, OLD.detail)
    THEN RETURN NEW; END IF;
  END IF;
  RAISE EXCEPTION 'audit_log is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER audit_log_rows BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION keep_audit_log();
CREATE TRIGGER audit_log_whole BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION keep_audit_log();
