// One connection of the server: its socket, who is at the other end, what was read ahead.
//
// Internal to src/server: the only header of ours that includes Boost.Beast.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "server/rights.h"

namespace probing::server {

inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

// Unix or TCP: the rest of the server does not care.
using Stream = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;

struct Connection {
  Connection(Stream::socket_type socket, Peer who) : stream(std::move(socket)), peer(std::move(who)) {}

  Stream stream;
  const Peer peer;
  boost::beast::flat_buffer buffer;
  bool has_said_all = false;       // its end was read: to read again would be to wait for ever
  bool is_busy = false;            // a request of somebody with rights is under way
  std::int64_t idle_since_ns = 0;  // who waits longest goes first when there are too many
};

// How long a peer may do nothing. The owner's own programs over the unix socket may for ever.
inline constexpr std::chrono::seconds kIdleTimeout{120};
inline constexpr std::chrono::seconds kHeaderTimeout{10};
inline constexpr std::chrono::seconds kBodyTimeout{30};
inline constexpr std::chrono::seconds kWriteTimeout{30};

// After the last answer: what the peer still sends is read for a moment. A reset, which is what closing
// with unread bytes means, would take the answer from it.
boost::asio::awaitable<void> SayGoodbye(Connection& connection);

// What the first bytes of a connection are.
enum class Protocol : std::uint8_t { kUnknown, kHttp, kText, kTls };
// kUnknown: more bytes are needed.
Protocol Sniff(std::string_view bytes);

}  // namespace probing::server
