#include "server/text_session.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "base/clock.h"
#include "server/connection.h"

namespace probing::server {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMaxLineBytes = 64 << 10;
constexpr std::chrono::minutes kThinking{10};      // a person is typing
constexpr std::chrono::seconds kIntroduction{10};  // until a stranger has said who it is

std::string_view Readable(const boost::beast::flat_buffer& buffer) {
  return {static_cast<const char*>(buffer.data().data()), buffer.size()};
}

bool IsText(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : c == '\t';
  });
}

// The first line of a request whose method Sniff() does not know: its header fields and its body, which a
// browser may have from anybody, are no commands.
bool IsRequestLine(std::string_view line) {
  const std::size_t version = line.rfind(" HTTP/");
  return version != std::string_view::npos && line.find(' ', version + 1) == std::string_view::npos;
}

asio::awaitable<bool> Write(Connection& connection, const std::string& text) {
  connection.stream.expires_after(kWriteTimeout);
  const auto [error, size] = co_await asio::async_write(connection.stream, asio::buffer(text), kAwait);
  co_return !error;
}

std::string ErrorText(const Error& error) {
  return "error: " + error.message + "\n" + (error.hint.empty() ? "" : "hint: " + error.hint + "\n");
}

enum class Reading : std::uint8_t { kLine, kEnd, kTooLong, kLate };

// The next line without its end. The last one needs none.
asio::awaitable<Reading> ReadLine(Connection& connection, std::chrono::seconds patience, std::string& line) {
  while (true) {
    const std::string_view read = Readable(connection.buffer);
    const std::size_t end = read.find('\n');
    if (end != std::string_view::npos) {
      line = std::string(read.substr(0, end));
      if (line.ends_with('\r')) line.pop_back();
      connection.buffer.consume(end + 1);
      co_return Reading::kLine;
    }
    if (connection.has_said_all) {
      line = std::string(read);
      connection.buffer.clear();
      co_return line.empty() ? Reading::kEnd : Reading::kLine;
    }
    if (read.size() > kMaxLineBytes) co_return Reading::kTooLong;
    connection.stream.expires_after(patience);
    const auto [error, size] =
        co_await connection.stream.async_read_some(connection.buffer.prepare(4096), kAwait);
    if (error == boost::beast::error::timeout) co_return Reading::kLate;
    connection.has_said_all = error.failed();
    connection.buffer.commit(size);
  }
}

}  // namespace

asio::awaitable<void> RunTextSession(Connection& connection, Access& access, const LineHandler& handler,
                                     const std::function<void(const Peer&, const Error&)>& refused) {
  TextState state{access.CheckText("", connection.peer, MonotonicNs()).right,
                  connection.peer.ToText(),
                  "",
                  {connection.peer.local_address, connection.peer.local_port}};
  std::string line;
  while (true) {
    const bool is_known = state.right != Right::kNone;
    const Reading reading =
        co_await ReadLine(connection, is_known ? std::chrono::seconds(kThinking) : kIntroduction, line);
    if (reading == Reading::kEnd || reading == Reading::kLate) co_return;
    if (reading == Reading::kTooLong || !IsText(line) || IsRequestLine(line)) {
      const std::string complaint =
          ErrorText({Code::kUsage,
                     reading == Reading::kTooLong ? "this line is too long" : "this is neither HTTP nor text",
                     "`help` lists what can be said here"});
      const bool written = co_await Write(connection, complaint);
      if (written) co_await SayGoodbye(connection);
      co_return;
    }
    if (line == "quit" || line == "exit") co_return;
    const bool is_token = line.starts_with("token ");
    if (is_token || !is_known) {
      const std::string token = is_token ? line.substr(6) : "";
      const Access::Decision decision = access.CheckText(token, connection.peer, MonotonicNs());
      state.right = decision.right;
      if (decision.refusal) {
        refused(connection.peer, decision.refusal->error);
        const std::string refusal = ErrorText(decision.refusal->error);
        const bool written = co_await Write(connection, refusal);
        if (written) co_await SayGoodbye(connection);
        co_return;
      }
      if (is_token) continue;
    }
    connection.is_busy = true;
    const std::string answer = co_await handler(state, line);
    connection.is_busy = false;
    connection.idle_since_ns = MonotonicNs();
    const bool written = co_await Write(connection, answer);
    if (!written) co_return;
  }
}

}  // namespace probing::server
