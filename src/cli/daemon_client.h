// Asks probingd, and starts it when it does not run.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/target.h"
#include "net/http_request.h"

namespace probing::cli {

using Json = nlohmann::ordered_json;  // fields in the order in which they were sent

// All that follows is asked of that daemon instead of the user's own. It is not started when it does
// not run, and not replaced when it is of another version. PROBING_TOKEN is sent along.
void UseDaemonAt(Endpoint endpoint);

enum class Patience { kSeconds, kEndless };

// One request and its answer. A daemon of another version is stopped and replaced; a failure
// it reports comes back as the Error it was.
Result<Json> GetFromDaemon(const std::string& path, Patience patience = Patience::kSeconds);
Result<Json> PostToDaemon(const std::string& path, const Json& body, Patience patience = Patience::kSeconds);

// The same of a daemon that runs already: none is started. Nothing when none does, or it does not answer.
std::optional<Json> AskRunningDaemon(const std::string& path);

// The same for an answer that is no JSON: its bytes as they came.
struct Bytes {
  std::string bytes;
  bool is_partial = false;  // hosts that were asked for it, too, did not answer
};
Result<std::string> GetBytes(const std::string& path, Patience patience = Patience::kSeconds);
Result<Bytes> PostForBytes(const std::string& path, const Json& body, Patience patience = Patience::kSeconds);

// Gives up what another thread waits for with Patience::kEndless: that call fails, and with its connection
// ends what was asked for.
void GiveUpRequests();

// Says which hosts an answer is about, to people, and whether some are missing.
bool PrintReceipt(const Json& receipt);

using net::UrlQuery;

// Starts probingd unless it runs already; does not wait for it.
Result<void> StartDaemon();

// JSON for people and programs alike: indented, with a newline.
std::string FormatJson(const Json& json);

// On one line, for programs.
std::string EncodeJson(const Json& json);

}  // namespace probing::cli
