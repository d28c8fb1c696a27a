-- A destination has one job and no slow lane: what a failed attempt puts off stands in `webhook_deliveries.next_attempt_at`.
ALTER TABLE webhook_health DROP COLUMN slow_until;

-- Who applies triggers is called as its role is.
UPDATE consumer_positions SET consumer = 'alerts' WHERE consumer = 'accounts';
