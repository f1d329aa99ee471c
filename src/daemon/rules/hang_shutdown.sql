-- class: hang
-- about: A rank stays although all others of its job have ended as they should.
-- They ended with exit code 0, the last of them more than {patience} seconds ago; this one sleeps in one function, or is
-- in a loop of one. A rank that is at work on its own (it writes a report) is left alone.
WITH member AS (
  SELECT host, pid, rank, job, state FROM global.probing.targets WHERE job_role = 'rank'
  QUALIFY row_number() OVER (PARTITION BY job, rank ORDER BY state = 'ended', restart DESC, since DESC) = 1
),
clock AS (
  SELECT host, (any_value(clock_offset_ms) * 1e6)::BIGINT AS offset_ns FROM cluster.nodes GROUP BY host
),
over AS (
  SELECT m.job, count(*) FILTER (m.state <> 'ended') AS left_over, count(*) AS ranks,
         bool_and(coalesce(e.reason = 'exit' AND e.exit_code = 0, false)) FILTER (m.state = 'ended') AS is_normal,
         max(e.timestamp_ns - coalesce(offset_ns, 0)) FILTER (m.state = 'ended') AS last_ns
  FROM member AS m LEFT JOIN global.crash.events AS e ON e.host = m.host AND e.pid = m.pid
  LEFT JOIN clock ON clock.host = m.host GROUP BY m.job
),
seen AS (
  SELECT host, pid, split_part(stack, ';', -1) AS place, sum(weight) AS seconds
  FROM global.python.samples WHERE tid = pid AND timestamp > now() - to_seconds(0.6 * {patience}) GROUP BY ALL
),
looked AS (SELECT host, pid, count(*) AS places FROM seen GROUP BY host, pid),
awake AS (
  SELECT host, pid, sum(voluntary_switches) AS times FROM global.system.threads
  WHERE tid = pid AND timestamp > now() - to_seconds(0.6 * {patience}) GROUP BY host, pid
)
SELECT [m.rank] AS ranks, [m.pid] AS pids, m.host, o.last_ns AS since_ns, 'error' AS severity,
       o.ranks - o.left_over || ' of ' || o.ranks || ' ranks ended normally, the last of them '
       || round((epoch_ns(now()) - o.last_ns) / 1e9, 1) || ' s ago; rank ' || m.rank || ' is in '
       || coalesce(p.place, 'no Python code') AS evidence,
       'probing -t ' || m.pid || ' backtrace --native' AS next
FROM member AS m JOIN over AS o USING (job) LEFT JOIN {places} AS p ON p.host = m.host AND p.pid = m.pid
LEFT JOIN looked AS l ON l.host = m.host AND l.pid = m.pid LEFT JOIN awake AS a ON a.host = m.host AND a.pid = m.pid
WHERE m.state = 'live' AND o.is_normal AND o.left_over < o.ranks AND epoch_ns(now()) - o.last_ns > {patience} * 1e9
  AND coalesce(l.places, 1) <= 1 AND coalesce(a.times, 0) < 1.2 * {patience}
