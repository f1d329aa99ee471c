-- class: slow_checkpoint
-- about: Saving checkpoints takes too much of the time.
-- More than a tenth of the last thirty times {patience} seconds, or of the time since the first of them,
-- went into two or more calls of torch.save() or torch.distributed.checkpoint.save().
WITH saves AS (
  SELECT host, pid, rank, name, epoch(timestamp) AS began, duration_ms / 1e3 AS took,
         attributes ->> '$.file' AS file
  FROM global.python.spans
  WHERE name IN ('torch.save', 'torch.distributed.checkpoint.save')
    AND timestamp > now() - to_seconds({patience} * 30)
),
sums AS (
  SELECT host, pid, rank, name, count(*) AS times, sum(took) AS took, max(took) AS longest,
         arg_max(file, took) AS file, greatest(epoch(now()) - min(began), {patience} * 3) AS seconds
  FROM saves GROUP BY host, pid, rank, name
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, 'warning' AS severity,
       round(100 * took / seconds) || ' % of the last ' || round(seconds) || ' s went into ' || times
       || ' calls of ' || name || '(), the longest ' || round(longest, 2) || ' s'
       || coalesce(', into ' || file, '') AS evidence,
       'probing -t ' || pid || ' query "SELECT timestamp, step, duration_ms, attributes FROM python.spans'
       || ' WHERE name = ''' || name || '''"' AS next
FROM sums WHERE times >= 2 AND took > 0.1 * seconds
