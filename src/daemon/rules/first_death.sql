-- class: first_death
-- about: A rank has died; when several did, this was the first.
-- The others of a job are ended by their launcher or by the missing peer soon after: why the first one ended
-- is the question. A rank that ended with exit code 0 is named when the others failed within five seconds, or
-- within a minute because their peer was gone. An end after which the job was started again is a warning: of all its lives the last
-- in which a rank died is told. Left out unless asked for: deaths older than {window} seconds, and those that
-- were requested (SIGTERM, SIGINT, SIGHUP; SIGKILL of a process outside a job or of a whole job at once).
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
),
-- How the first rank that failed ended: because of a peer?
failed AS (
  SELECT job_key, min(life) AS last_life, min(timestamp_ns) AS first_ns,
         regexp_matches(coalesce(arg_min(message, timestamp_ns), ''),
                        'by peer|remote (worker|process)|[Cc]onnection (reset|refused|closed)|gloo|NCCL') AS by_peer
  FROM ended AS e WHERE is_bad
    AND life = (SELECT min(o.life) FROM ended AS o WHERE o.job_key = e.job_key AND o.is_bad)
  GROUP BY job_key
),
counted AS (
  SELECT e.*, row_number() OVER same AS position, count(*) OVER (PARTITION BY job_key) AS deaths,
         max(timestamp_ns) OVER (PARTITION BY job_key) AS last_ns,
         count(*) FILTER (signal = 'SIGKILL' AND e.reason <> 'oom') OVER (PARTITION BY job_key) AS kills
  FROM ended AS e JOIN failed AS f USING (job_key)
  WHERE life = last_life
    AND (is_bad OR timestamp_ns BETWEEN first_ns - CASE WHEN f.by_peer THEN 60000000000 ELSE 5000000000 END AND first_ns)
  WINDOW same AS (PARTITION BY job_key ORDER BY timestamp_ns)
)
SELECT CASE WHEN c.rank IS NULL THEN [] ELSE [c.rank] END AS ranks, [c.pid] AS pids, c.host,
       c.timestamp_ns AS since_ns,
       CASE WHEN c.signal IN ('SIGTERM', 'SIGINT', 'SIGHUP') OR life > 1 THEN 'warning' ELSE 'error' END AS severity,
       coalesce('rank ' || c.rank || ' (process ' || c.pid || ')', 'process ' || c.pid) || ' ended'
       || CASE WHEN deaths > 1 THEN ' first' ELSE '' END || ': '
       || CASE WHEN NOT is_bad THEN 'normally, with exit code 0, while the others still needed it'
          ELSE coalesce(c.signal, CASE WHEN c.exit_code IS NOT NULL THEN 'exit code ' || c.exit_code END, c.reason) END
       || CASE WHEN c.reason = 'oom' THEN ', out of memory' ELSE '' END
       || coalesce(', ' || c.message, '') || coalesce(', at step ' || c.last_step, '')
       || coalesce((SELECT ', in ' || any_value(s.func || ' (' || parse_filename(s.file) || ':' || s.lineno || ')')
                    FROM global.crash.stacks AS s
                    WHERE s.host = c.host AND s.pid = c.pid AND s.depth = 0 AND s.tid = s.pid), '')
       || CASE WHEN deaths > 1 THEN '; ' || deaths - 1 || ' more within '
               || round((last_ns - timestamp_ns) / 1e9, 1) || ' s' ELSE '' END
       || CASE WHEN life > 1 THEN '; it was started again since' ELSE '' END AS evidence,
       'probing -t ' || c.pid || ' query "SELECT * FROM crash.stacks"' AS next
FROM counted AS c
WHERE position = 1 AND ({asked} OR (
  timestamp > now() - to_seconds({window})
  AND coalesce(signal NOT IN ('SIGTERM', 'SIGINT', 'SIGHUP'), true)
  AND NOT coalesce(signal = 'SIGKILL' AND reason <> 'oom', false)
   OR timestamp > now() - to_seconds({window}) AND signal = 'SIGKILL' AND reason <> 'oom' AND job_role = 'rank'
      AND members > 1 AND NOT (kills = members AND last_ns - timestamp_ns < 2000000000)))
