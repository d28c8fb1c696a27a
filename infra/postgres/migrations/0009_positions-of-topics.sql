-- A position knows the id of its topic. Those before are forgotten: the topic is read again, which changes nothing.
DELETE FROM consumer_positions;
ALTER TABLE consumer_positions ADD COLUMN topic_id text NOT NULL;
