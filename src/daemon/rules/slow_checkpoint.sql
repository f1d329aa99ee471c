-- class: slow_checkpoint
-- about: Saving checkpoints takes too much of the time.
-- More than a tenth of the last thirty times {patience} seconds, or of the time since the first of them,
-- went into two or more calls of torch.save() or torch.distributed.checkpoint.save(). Where calls are not recorded (torch
-- profiling is off), and of safetensors, the samples of the main thread tell.
WITH sampled AS (
  SELECT host, pid, rank, weight, timestamp_ns,
         regexp_extract(stack, '(save|_save|save_file|async_save) \([^;]*/(torch/serialization|safetensors/torch|torch/distributed/checkpoint/state_dict_saver)\.py', 2) AS saver
  FROM global.python.samples
  WHERE tid = pid AND timestamp > now() - to_seconds({patience} * 30)
    AND (host, pid) NOT IN (SELECT (host, pid) FROM global.python.spans
                            WHERE name IN ('torch.save', 'torch.distributed.checkpoint.save'))
),
sampled_sums AS (
  SELECT host, pid, rank, count(*) FILTER (saver <> '' AND before = '') AS times,
         sum(weight) FILTER (saver <> '') AS took, max(saver) AS saver,
         greatest((epoch_ns(now()) - min(timestamp_ns) FILTER (saver <> '')) / 1e9, {patience} * 3) AS seconds
  FROM (SELECT *, lag(saver, 1, '') OVER (PARTITION BY host, pid ORDER BY timestamp_ns) AS before FROM sampled)
  GROUP BY host, pid, rank
),
saves AS (
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
UNION ALL
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END, [pid], host, 'warning',
       round(100 * took / seconds) || ' % of the last ' || round(seconds) || ' s went into saving by '
       || replace(saver, '/', '.') || ' (' || times || ' times, by samples of the main thread)',
       'probing -t ' || pid || ' flamegraph -d 10 --threads -o save.svg'
FROM sampled_sums WHERE times >= 2 AND took > 0.1 * seconds
