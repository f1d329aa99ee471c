-- class: slow_rdma
-- about: An InfiniBand or RoCE port is down, slower than the others, loses packets, or cannot send what is ready.
-- One line for each port of a host, whatever the number of ranks there. A link that is down is told when it was up before, or when
-- others of its host are up and as fast; one that is slower than most ports of its kind in the job is told always.
WITH recent AS (
  SELECT * FROM global.system.rdma WHERE timestamp > now() - to_seconds({patience} * 3)
),
port AS (
  -- All ranks of a host have the same rows: one of them speaks.
  SELECT host, device, port, min(pid) AS first_pid, list(DISTINCT pid ORDER BY pid) AS pids,
         list(DISTINCT rank ORDER BY rank) FILTER (rank IS NOT NULL) AS ranks, any_value(link_layer) AS link_layer,
         arg_max(state, timestamp) AS state, bool_or(state = 'active') AS was_active,
         arg_max(speed, timestamp) AS speed
  FROM recent GROUP BY host, device, port
),
traffic AS (
  SELECT r.host, r.device, r.port, sum(r.errors) AS errors, sum(r.link_downs) AS link_downs,
         sum(r.retransmissions) AS again, sum(r.congestion_marks) AS marks, sum(r.sent_packets) AS packets,
         sum(r.wait_ticks) AS ticks, max(r.send_rate) AS best_rate,
         min(epoch_ns(r.timestamp)) FILTER (r.errors > 0 OR r.link_downs > 0 OR r.retransmissions > 0) AS since_ns
  FROM recent AS r JOIN port AS p ON p.host = r.host AND p.device = r.device AND p.port = r.port AND p.first_pid = r.pid
  GROUP BY r.host, r.device, r.port
),
usual AS (SELECT link_layer, median(speed) AS speed, count(*) AS ports FROM port WHERE state = 'active' GROUP BY link_layer),
said AS (
  SELECT host, device, port, 1 AS place, true AS is_error, 'the link is ' || state || ', and was up before' AS text FROM port
  WHERE state <> 'active' AND was_active
  UNION ALL
  SELECT host, device, port, 2, true, 'the link went down ' || link_downs || ' times' FROM traffic WHERE link_downs > 0
  UNION ALL
  SELECT p.host, p.device, p.port, 3, false, 'its link has ' || round(p.speed)::BIGINT || ' Gbit/s, most have ' || round(u.speed)::BIGINT
  FROM port AS p JOIN usual AS u USING (link_layer)
  WHERE p.state = 'active' AND u.ports >= 2 AND p.speed < 0.9 * u.speed
  UNION ALL
  SELECT host, device, port, 4, false, errors || ' packets were damaged or thrown away' FROM traffic
  WHERE errors >= 10 AND errors > packets * 1e-7
  UNION ALL
  SELECT host, device, port, 5, false, again || ' packets were sent again (of ' || packets || ')' FROM traffic
  WHERE again >= 100 AND again > packets * 1e-4
  UNION ALL
  SELECT host, device, port, 6, false, 'switches marked ' || marks || ' packets for congestion (of ' || packets || ' sent)'
  FROM traffic WHERE marks >= 1000 AND marks > packets * 0.05
)
SELECT any_value(p.ranks) AS ranks, any_value(p.pids) AS pids, s.host,
       CASE WHEN bool_or(s.is_error) THEN 'error' ELSE 'warning' END AS severity, any_value(t.since_ns) AS since_ns,
       s.device || ' port ' || s.port || ' of ' || s.host || ': ' || string_agg(s.text, '; ' ORDER BY s.place) AS evidence,
       'probing query "SELECT timestamp, state, speed, send_rate, errors, retransmissions, congestion_marks, wait_ticks'
       || ' FROM global.system.rdma WHERE device = ''' || s.device || ''' ORDER BY timestamp DESC LIMIT 20"' AS next
FROM said AS s JOIN port AS p ON p.host = s.host AND p.device = s.device AND p.port = s.port
JOIN traffic AS t ON t.host = s.host AND t.device = s.device AND t.port = s.port
GROUP BY s.host, s.device, s.port
