-- class: recompilation
-- about: torch.compile compiles the same function again and again, or has given it up.
-- More than four recompilations of a function are not its start: it is compiled for other sizes, for training and for
-- evaluation, and once for all sizes. Named when the last one was within six times {patience}, or when torch has reached its
-- limit, since when the function runs as if it were not compiled.
WITH functions AS (
  SELECT host, pid, rank, func, file, lineno, count(*) FILTER (fail_reason IS NULL) AS times, max(timestamp) AS last,
         min(timestamp_ns) AS since_ns, sum(seconds) AS seconds, arg_max(reason, timestamp) AS reason,
         epoch(max(timestamp) - min(timestamp)) AS span,
         coalesce(bool_or(contains(fail_reason, 'limit')), false) AS given_up
  FROM global.python.recompiles
  WHERE (host, pid) IN (SELECT (host, pid) FROM global.probing.targets WHERE state = 'live') AND func IS NOT NULL
  GROUP BY host, pid, rank, func, file, lineno
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, min(since_ns) AS since_ns,
       'warning' AS severity,
       string_agg(func || ' (' || parse_filename(file) || ':' || lineno || ') was compiled again ' || times
                  || ' times in ' || round(span, 1) || ' s, which took ' || round(seconds, 1) || ' s'
                  || CASE WHEN given_up THEN '; torch has reached its limit and runs it uncompiled' ELSE '' END
                  || coalesce(': ' || reason, ''), '; ' ORDER BY times DESC) AS evidence,
       'probing -t ' || pid || ' query "SELECT timestamp, attempt, reason, seconds FROM python.recompiles WHERE func = '''
       || arg_max(func, times) || ''' ORDER BY timestamp DESC LIMIT 20"' AS next
FROM functions
WHERE times > 4 AND (given_up OR last > now() - to_seconds({patience} * 6))
GROUP BY host, pid, rank
