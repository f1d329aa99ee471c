// What is said to probingd in plain text, a line after the other: a command asks the router for something
// that it has, about a target that is a pid, and every answer ends with its line.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>

#include "base/text.h"
#include "daemon/text_commands.h"
#include "wire/contract.h"

namespace {

namespace asio = boost::asio;
using probing::Result;
using probing::server::Json;
using probing::server::Request;
using probing::server::Right;

// As the routes do: with the request's own words in it.
asio::awaitable<Result<Json>> Answer(const Request& request) {
  if (const auto target = request.query.find("target"); target != request.query.end()) {
    if (!probing::IsNumber(target->second)) std::abort();
  }
  if (request.body.contains("sql") && !request.body["sql"].is_string()) std::abort();
  if (request.body.contains("code")) {
    co_return Json{{"outcome", "ok"}, {"stdout", request.body["code"]}, {"value", "1"}};
  }
  if (request.body.contains("sql") && request.body["sql"].get<std::string>().size() % 3 == 0)
    co_return probing::Error{probing::Code::kUsage, "no", "never"};
  co_return Json{{"settings", {{{"name", "a"}, {"value", "b"}}}}, {"probe", {{"threads", 1}}}};
}

asio::awaitable<void> Say(std::string_view text, const std::vector<pid_t>& pids,
                          const probing::server::Router& router) {
  probing::server::TextState state{Right::kEval, "fuzzer", ""};
  while (!text.empty()) {
    const std::string line(probing::TakePart(text, '\n'));
    const std::string answer = co_await probing::daemon::AnswerLine(pids, router, state, line);
    if (!answer.empty() && !answer.ends_with('\n')) std::abort();
    if (!state.target.empty() && !probing::IsNumber(state.target)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  probing::server::Router router;
  for (const std::string_view route :
       {probing::wire::kQueryRoute, probing::wire::kBacktraceRoute, probing::wire::kConfigRoute,
        probing::wire::kStatusRoute, probing::wire::kEvalRoute}) {
    for (const char* method : {"GET", "POST"}) router.Add(method, route, Right::kRead, Answer);
  }
  const std::vector<pid_t> pids(data[0] % 3, 4711);
  asio::io_context io(1);
  std::exception_ptr problem;
  asio::co_spawn(io, Say({reinterpret_cast<const char*>(data + 1), size - 1}, pids, router),
                 [&problem](std::exception_ptr thrown) { problem = std::move(thrown); });
  io.run();
  if (problem) std::abort();
  return 0;
}
