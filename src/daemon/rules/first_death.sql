-- class: first_death
-- about: A rank has died; when several did, this was the first.
-- The others of a job are ended by their launcher or by the missing peer soon after: why the
-- first one ended is the question. Ends with exit code 0 are none of this; an end that somebody asked
-- for (SIGTERM, SIGINT, SIGHUP) is a warning, and so is one after which the job was started again: of all
-- its lives the last in which somebody died is told.
WITH process AS (
  SELECT host, pid, job_role, CASE WHEN job_role IS NULL THEN host || '/' || pid ELSE job END AS job_key,
         row_number() OVER (PARTITION BY job_key, coalesce(rank::VARCHAR, host || '/' || pid)
                            ORDER BY state = 'ended', restart DESC, since DESC) AS life
  FROM global.probing.targets
),
ended AS (
  SELECT e.*, job_key, life, min(life) OVER (PARTITION BY job_key) AS last_life
  FROM global.crash.events AS e JOIN process USING (host, pid)
  WHERE job_role IS DISTINCT FROM 'launcher' AND NOT (e.reason = 'exit' AND e.exit_code = 0)
),
counted AS (
  SELECT *, row_number() OVER (PARTITION BY job_key ORDER BY timestamp_ns) AS position,
         count(*) OVER (PARTITION BY job_key) AS deaths, max(timestamp_ns) OVER (PARTITION BY job_key) AS last_ns
  FROM ended WHERE life = last_life
)
SELECT CASE WHEN c.rank IS NULL THEN [] ELSE [c.rank] END AS ranks, [c.pid] AS pids, c.host,
       CASE WHEN c.signal IN ('SIGTERM', 'SIGINT', 'SIGHUP') OR life > 1 THEN 'warning' ELSE 'error' END AS severity,
       coalesce('rank ' || c.rank || ' (process ' || c.pid || ')', 'process ' || c.pid) || ' ended'
       || CASE WHEN deaths > 1 THEN ' first' ELSE '' END || ': '
       || coalesce(c.signal, CASE WHEN c.exit_code IS NOT NULL THEN 'exit code ' || c.exit_code END, c.reason)
       || CASE WHEN c.reason = 'oom' THEN ', out of memory' ELSE '' END
       || coalesce(', ' || c.message, '') || coalesce(', at step ' || c.last_step, '')
       || coalesce((SELECT ', in ' || any_value(s.func || ' (' || parse_filename(s.file) || ':' || s.lineno || ')')
                    FROM global.crash.stacks AS s
                    WHERE s.host = c.host AND s.pid = c.pid AND s.depth = 0 AND s.tid = s.pid), '')
       || CASE WHEN deaths > 1 THEN '; ' || deaths - 1 || ' more within '
               || round((last_ns - timestamp_ns) / 1e9, 1) || ' s' ELSE '' END
       || CASE WHEN life > 1 THEN '; it was started again since' ELSE '' END AS evidence,
       'probing -t ' || c.pid || ' query "SELECT * FROM crash.stacks"' AS next
FROM counted AS c WHERE position = 1
