-- class: first_death
-- about: A rank has died; when several did, this was the first.
-- The others of a job are ended by their launcher or by the missing peer soon after: why the
-- first one ended is the question. Ends with exit code 0 are none of this; an end that somebody asked
-- for (SIGTERM, SIGINT, SIGHUP) is a warning.
WITH ended AS (
  SELECT e.*, CASE WHEN t.job_role IS NULL THEN e.host || '/' || e.pid ELSE t.job END AS job_key
  FROM global.crash.events AS e JOIN global.probing.targets AS t USING (host, pid)
  WHERE t.job_role IS DISTINCT FROM 'launcher' AND NOT (e.reason = 'exit' AND e.exit_code = 0)
),
counted AS (
  SELECT *, row_number() OVER w AS position, count(*) OVER (PARTITION BY job_key) AS deaths,
         max(timestamp_ns) OVER (PARTITION BY job_key) AS last_ns
  FROM ended WINDOW w AS (PARTITION BY job_key ORDER BY timestamp_ns)
)
SELECT CASE WHEN c.rank IS NULL THEN [] ELSE [c.rank] END AS ranks, [c.pid] AS pids,
       CASE WHEN c.signal IN ('SIGTERM', 'SIGINT', 'SIGHUP') THEN 'warning' ELSE 'error' END AS severity,
       coalesce('rank ' || c.rank || ' (process ' || c.pid || ')', 'process ' || c.pid) || ' ended'
       || CASE WHEN deaths > 1 THEN ' first' ELSE '' END || ': '
       || coalesce(c.signal, CASE WHEN c.exit_code IS NOT NULL THEN 'exit code ' || c.exit_code END, c.reason)
       || CASE WHEN c.reason = 'oom' THEN ', out of memory' ELSE '' END
       || coalesce(', ' || c.message, '') || coalesce(', at step ' || c.last_step, '')
       || coalesce((SELECT ', in ' || any_value(s.func || ' (' || parse_filename(s.file) || ':' || s.lineno || ')')
                    FROM global.crash.stacks AS s
                    WHERE s.host = c.host AND s.pid = c.pid AND s.depth = 0 AND s.tid = s.pid), '')
       || CASE WHEN deaths > 1 THEN '; ' || deaths - 1 || ' more within '
               || round((last_ns - timestamp_ns) / 1e9, 1) || ' s' ELSE '' END AS evidence,
       'probing query "SELECT * FROM crash.stacks WHERE pid = ' || c.pid || '"' AS next
FROM counted AS c WHERE position = 1
