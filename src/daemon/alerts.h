// Findings and stalls as alerts, and alerts as others read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outlet/alert.h"
#include "outlet/otlp.h"
#include "server/router.h"

namespace probing::daemon {

// A finding as Diagnose() answers it.
outlet::Alert AlertOfFinding(const server::Json& finding);

// Rows of python.stalls since `from_ns`, wall time; AlertOfStall() reads one.
std::string StallSql(std::int64_t from_ns);
outlet::Alert AlertOfStall(const server::Json& row);

// What POST /api/v2/alerts of an Alertmanager takes: all times are told, an alert that lasts ends at
// `until_ns` unless it is told again.
std::string ForAlertmanager(const std::vector<outlet::Alert>& alerts, std::int64_t until_ns);
// What an Alertmanager itself sends to webhooks (version 4), for everything that understands that.
std::string ForWebhook(const std::vector<outlet::Alert>& alerts);
outlet::otlp::LogRecord ForOtlp(const outlet::Alert& alert);
// One line, and fields for journald.
std::string LineOf(const outlet::Alert& alert);
outlet::Texts JournalFields(const outlet::Alert& alert);

}  // namespace probing::daemon
