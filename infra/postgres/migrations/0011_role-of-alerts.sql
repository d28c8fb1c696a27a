-- The roles `accounts` and `delivery` are one role: `alerts`, which goes on from the positions of the former.
-- `webhook_health.slow_until` is written no more: a destination has one job, slow or not.
UPDATE consumer_positions SET consumer = 'alerts' WHERE consumer = 'accounts';
