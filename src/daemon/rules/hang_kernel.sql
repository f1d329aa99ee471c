-- class: hang
-- about: The main thread is stuck in the kernel (D state), or the process is stopped.
-- In the D state a thread waits for storage or a driver and cannot even be killed; a stopped process
-- got SIGSTOP. Each row of the last {patience} seconds says so.
WITH recent AS (
  SELECT host, pid, rank, state, wait_channel, timestamp_ns FROM global.system.threads
  WHERE tid = pid AND timestamp_ns > epoch_ns(now()) - ({patience} + 2) * 1e9
    AND (host, pid) IN (SELECT (host, pid) FROM global.probing.targets WHERE state <> 'ended')
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, 'error' AS severity,
       CASE WHEN any_value(state) = 'stopped' THEN 'the process is stopped for '
            ELSE 'the main thread is stuck in the kernel (D state' || coalesce(', ' || any_value(wait_channel), '')
                 || ') for ' END
       || round((max(timestamp_ns) - min(timestamp_ns)) / 1e9, 1) || ' s' AS evidence,
       CASE WHEN any_value(state) = 'stopped' THEN 'kill -CONT ' || pid
            ELSE 'probing -t ' || pid || ' backtrace' END AS next
FROM recent GROUP BY host, pid, rank
HAVING count(*) >= 3 AND count(DISTINCT state) = 1 AND any_value(state) IN ('disk', 'stopped')
   AND max(timestamp_ns) - min(timestamp_ns) >= {patience} * 0.8e9
