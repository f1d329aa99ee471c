// Asks a ClickHouse server over HTTP: one connection for each question. Blocking, every wait has an end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/store_url.h"

namespace probing::store {

using Fields = std::vector<std::pair<std::string, std::string>>;

struct Question {
  std::string sql;
  std::string_view data;  // what follows INSERT … FORMAT; outlives the call
  Fields settings;        // besides those of the URL
  std::int64_t timeout_ms = 30'000;
  std::size_t max_bytes = 64UL << 20;  // of the answer
};

struct ServerAnswer {
  int status = 0;  // of HTTP
  std::string body;

  bool ok() const { return status == 200; }
};

class Client {
 public:
  explicit Client(wire::StoreUrl url) : url_(std::move(url)) {}

  const wire::StoreUrl& url() const { return url_; }

  // An error when the server could not be reached or did not answer as a whole; what it says otherwise may
  // be a refusal.
  Result<ServerAnswer> Ask(const Question& question) const;

  // The same, a refusal being an error too.
  Result<std::string> Run(const Question& question) const;

 private:
  wire::StoreUrl url_;
};

// What a refusal says, without the parts that are for the server's authors.
Error RefusalError(const wire::StoreUrl& url, const ServerAnswer& answer);

}  // namespace probing::store
