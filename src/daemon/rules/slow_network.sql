-- class: slow_network
-- about: One host sends or receives slower than the others do among each other.
-- A slow link slows all ranks alike, so steps tell nothing. The kernel counts for each connection how long
-- something was on its way, without the time in which the other side had no room: that makes a rate. The
-- slowest connection of an address is held against the slow ones of those that have no end there. Of two that
-- share it the culprit is the one whose other connections are slow, too: answers to what it gets go the slow
-- way. Needs three hosts.
WITH ends AS (
  SELECT host, pid, rank, local, remote, regexp_replace(local, ':\d+$', '') AS address,
         sum(sent_bytes) AS bytes, sum(busy_ms - coalesce(peer_limited_ms, 0)) AS busy_ms,
         max(rtt_ms) AS rtt_ms, sum(retransmissions) AS again,
         epoch(max(timestamp) - min(timestamp)) AS seconds
  FROM global.system.sockets WHERE timestamp > now() - to_seconds({patience} * 3)
  GROUP BY ALL
),
-- Both ends belong to ranks, and are on different addresses.
sent AS (
  SELECT a.address AS sender, b.address AS receiver, a.bytes / 1e3 / greatest(a.busy_ms, 1) AS rate,
         a.busy_ms / 1e3 / a.seconds AS busy, a.rtt_ms, a.again
  FROM ends AS a JOIN ends AS b ON a.local = b.remote AND a.remote = b.local
  WHERE sender <> receiver AND a.bytes > 100000 AND a.seconds > {patience}
),
slowest AS (
  SELECT e.address, any_value(e.host) AS host, list(DISTINCT e.rank ORDER BY e.rank) AS ranks,
         list(DISTINCT e.pid ORDER BY e.pid) AS pids, min(s.rate) AS rate, arg_min(s.busy, s.rate) AS busy,
         arg_min(s.rtt_ms, s.rate) AS rtt_ms, arg_min(s.again, s.rate) AS again,
         arg_min(CASE WHEN s.sender = e.address THEN 'to ' || s.receiver ELSE 'from ' || s.sender END, s.rate) AS way,
         arg_min(CASE WHEN s.sender = e.address THEN s.receiver ELSE s.sender END, s.rate) AS other,
         max(s.rate) AS best
  FROM ends AS e JOIN sent AS s ON e.address IN (s.sender, s.receiver)
  WHERE e.rank IS NOT NULL GROUP BY e.address
),
judged AS (
  SELECT s.*, (SELECT quantile_cont(rate, 0.1) FROM sent
               WHERE sender <> s.address AND receiver <> s.address) AS others_rate
  FROM slowest AS s
),
slow AS (SELECT * FROM judged WHERE busy > 0.2 AND rate < 0.3 * others_rate)
SELECT ranks, pids, host, 'warning' AS severity,
       'the network of ' || host || ' (' || address || ') is slow: ' || round(rate, 1) || ' MB/s ' || way
       || ', between the others ' || round(others_rate, 1) || ' or more; something was on its way for '
       || round(100 * busy) || ' % of the time, round trip ' || round(rtt_ms, 1) || ' ms, ' || again
       || ' segments sent again' AS evidence,
       'probing query "SELECT timestamp, host, local, remote, sent_bytes, busy_ms, rtt_ms'
       || ' FROM global.system.sockets WHERE busy_ms > 100 ORDER BY timestamp DESC LIMIT 50"' AS next
FROM slow AS s WHERE NOT EXISTS (SELECT 1 FROM slow AS o WHERE o.address = s.other AND o.best < s.best)
