// A WebSocket to probingd (RFC 6455): messages of text both ways, for as long as a session lasts.
//
// Belongs to one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/channel.h"

namespace probing::cli {

class WebSocket {
 public:
  // On a connection whose handshake is done; `early` is what came behind its last line.
  WebSocket(net::Channel channel, std::string early);

  Result<void> Send(std::string_view text);

  // The next message. Waits for it; an Error when the connection is gone.
  Result<std::string> Receive();

  // Answers what the other end asks the connection itself, without waiting. False when it is gone.
  bool StillThere();

 private:
  struct Frame {
    unsigned opcode = 0;
    bool is_last = true;
    std::string payload;
  };
  Result<void> SendFrame(unsigned opcode, std::string_view payload);
  Result<std::optional<Frame>> TakeFrame();
  Result<void> Handle(const Frame& frame);

  net::Channel channel_;
  std::string buffer_;   // what was read and is no whole frame yet
  std::string message_;  // the frames of a message that goes on
  std::optional<std::string> ready_;
};

// A conversation with probingd, or with the one UseDaemonAt() names: daemon_client.cc.
Result<std::shared_ptr<WebSocket>> OpenWebSocket(const std::string& path);

}  // namespace probing::cli
