-- class: hang
-- about: The main thread is stuck in the kernel (D state), or the process is stopped.
-- In the D state a thread waits for storage or a driver and cannot even be killed; a stopped process
-- got SIGSTOP. It has not run for {patience} seconds: a thread that does not run has a row in one of ten looks.
WITH
-- Clocks of other hosts, as far as their offset is known.
clock AS (
  SELECT host, (any_value(clock_offset_ms) * 1e6)::BIGINT AS offset_ns FROM cluster.nodes GROUP BY host
),
recent AS (
  SELECT host, pid, rank, state, wait_channel, timestamp_ns - coalesce(offset_ns, 0) AS timestamp_ns,
         state NOT IN ('uninterruptible', 'stopped', 'traced') OR coalesce(voluntary_switches, 0) > 0 AS has_run
  FROM global.system.threads AS t LEFT JOIN clock USING (host)
  WHERE tid = pid AND state IS NOT NULL
    AND t.timestamp_ns - coalesce(offset_ns, 0) > epoch_ns(now()) - ({patience} * 2 + 60) * 1e9
    AND (host, pid) IN (SELECT (host, pid) FROM global.probing.targets WHERE state <> 'ended')
),
last_run AS (SELECT host, pid, max(timestamp_ns) AS last_ns FROM recent WHERE has_run GROUP BY host, pid),
stuck AS (
  SELECT r.host, r.pid, r.rank, arg_max(r.state, r.timestamp_ns) AS state, any_value(r.wait_channel) AS channel,
         (epoch_ns(now()) - coalesce(any_value(l.last_ns), min(r.timestamp_ns))) / 1e9 AS seconds
  FROM recent AS r LEFT JOIN last_run AS l USING (host, pid)
  WHERE r.timestamp_ns > coalesce(l.last_ns, 0) GROUP BY ALL
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, 'error' AS severity,
       CASE state WHEN 'stopped' THEN 'the process is stopped for '
                  WHEN 'traced' THEN 'the process is held by a debugger for '
            ELSE 'the main thread is stuck in the kernel (D state' || coalesce(', ' || channel, '') || ') for ' END
       || round(seconds, 1) || ' s' AS evidence,
       CASE state WHEN 'stopped' THEN 'kill -CONT ' || pid
                  WHEN 'traced' THEN 'grep TracerPid /proc/' || pid || '/status' ELSE 'probing -t ' || pid || ' backtrace' END AS next
FROM stuck WHERE seconds > {patience}
