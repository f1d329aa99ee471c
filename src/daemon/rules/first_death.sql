-- class: first_death
-- about: A rank has died; when several did, this was the first.
-- The others of a job are ended by their launcher or by the missing peer soon after: why the first one ended
-- is the question. Those that lost a peer say so; the rank that ended for another reason, or with exit code 0 within a
-- minute before or ten seconds after, is the cause. Of all lives of a job the last in which a rank died is told. Left out unless asked for: deaths older
-- than {window} seconds, those after which the job was started again (a warning), and those that
-- were requested (SIGTERM, SIGINT, SIGHUP; SIGKILL of a process outside a job or of several ranks at once, of which
-- others may fail before it is their turn).
WITH process AS (
  SELECT host, pid, job_role, CASE WHEN job_role IS NULL THEN host || '/' || pid ELSE job END AS job_key,
         row_number() OVER (PARTITION BY job_key, coalesce(rank::VARCHAR, host || '/' || pid)
                            ORDER BY state = 'ended', restart DESC, since DESC) AS life,
         count(DISTINCT rank) OVER (PARTITION BY job_key) AS members
  FROM global.probing.targets
),
ended AS (
  SELECT e.*, job_key, job_role, members, life, NOT (e.reason = 'exit' AND e.exit_code = 0) AS is_bad
  FROM global.crash.events AS e JOIN process USING (host, pid)
  WHERE job_role IS DISTINCT FROM 'launcher'
    -- torchrun, with a probe in it: it ends because a rank has.
    AND NOT coalesce(starts_with(message, 'torch.distributed.elastic.'), false)
),
-- Those that say themselves that they lost a peer, or were told to end, are not the cause.
judged AS (
  SELECT *, is_bad AND (coalesce(regexp_matches(message,
              'by peer|remote (worker|process)|[Cc]onnection (reset|refused|closed)|[Bb]roken pipe|TCPStore'), false)
            OR coalesce(signal IN ('SIGTERM', 'SIGINT', 'SIGHUP'), false)) AS is_victim
  FROM ended
),
failed AS (
  SELECT job_key, min(life) AS last_life, min(timestamp_ns) AS first_ns, bool_or(is_victim) AS by_peer
  FROM judged AS e WHERE is_bad
    AND life = (SELECT min(o.life) FROM ended AS o WHERE o.job_key = e.job_key AND o.is_bad)
  GROUP BY job_key
),
counted AS (
  SELECT e.*, row_number() OVER same AS position, count(*) OVER (PARTITION BY job_key) AS deaths,
         max(timestamp_ns) OVER (PARTITION BY job_key) AS last_ns,
         count(*) FILTER (signal = 'SIGKILL' AND e.reason <> 'oom') OVER (PARTITION BY job_key) AS kills,
         max(timestamp_ns) FILTER (signal = 'SIGKILL') OVER (PARTITION BY job_key) AS last_kill_ns
  FROM judged AS e JOIN failed AS f USING (job_key)
  WHERE life = last_life
    AND (is_bad OR timestamp_ns BETWEEN first_ns - CASE WHEN f.by_peer THEN 60000000000 ELSE 5000000000 END
                            AND first_ns + CASE WHEN f.by_peer THEN 10000000000 ELSE 0 END)
  -- A crash with a reason of its own, an end with exit code 0, a crash without a word, a victim; of each the first.
  WINDOW same AS (PARTITION BY job_key ORDER BY
    CASE WHEN is_victim AND signal IS NULL THEN 4 WHEN is_victim THEN 3 WHEN NOT is_bad THEN 1 WHEN message IS NULL AND signal IS NULL THEN 2 ELSE 0 END,
    timestamp_ns)
)
SELECT CASE WHEN c.rank IS NULL THEN [] ELSE [c.rank] END AS ranks, [c.pid] AS pids, c.host,
       c.timestamp_ns AS since_ns,
       CASE WHEN c.signal IN ('SIGTERM', 'SIGINT', 'SIGHUP') OR life > 1 THEN 'warning' ELSE 'error' END AS severity,
       coalesce('rank ' || c.rank || ' (process ' || c.pid || ')', 'process ' || c.pid) || ' ended'
       || CASE WHEN deaths > 1 AND NOT is_victim THEN ' first' ELSE '' END || ': '
       || CASE WHEN NOT is_bad THEN 'normally, with exit code 0, while the others still needed it'
          ELSE coalesce(c.signal, CASE WHEN c.exit_code IS NOT NULL THEN 'exit code ' || c.exit_code END, c.reason) END
       || CASE WHEN c.reason = 'oom' THEN ', out of memory' ELSE '' END
       || coalesce(', ' || c.message, '') || coalesce(', at step ' || c.last_step, '')
       || coalesce((SELECT ', in ' || any_value(s.func || ' (' || parse_filename(s.file) || ':' || s.lineno || ')')
                    FROM global.crash.stacks AS s
                    WHERE s.host = c.host AND s.pid = c.pid AND s.depth = 0 AND s.tid = s.pid), '')
       || CASE WHEN deaths > 1 THEN '; ' || deaths - 1 || ' more within '
               || round(greatest(last_ns - timestamp_ns, 0) / 1e9, 1) || ' s' ELSE '' END
       || CASE WHEN life > 1 THEN '; it was started again since' ELSE '' END AS evidence,
       'probing -t ' || c.pid || ' query "SELECT * FROM crash.stacks"' AS next
FROM counted AS c
WHERE position = 1
  -- While only victims have ended, the cause is still on its way out.
  AND NOT (is_victim AND members > deaths AND job_role = 'rank' AND epoch_ns(now()) - last_ns < 6000000000)
  AND ({asked} OR life = 1 AND (
  timestamp > now() - to_seconds({window})
  AND coalesce(signal NOT IN ('SIGTERM', 'SIGINT', 'SIGHUP'), true)
  AND NOT coalesce(signal = 'SIGKILL' AND reason <> 'oom', false)
   OR timestamp > now() - to_seconds({window}) AND signal = 'SIGKILL' AND reason <> 'oom' AND job_role = 'rank'
      AND members > 1 AND NOT (kills > 1 AND last_kill_ns - timestamp_ns < 2000000000)))
