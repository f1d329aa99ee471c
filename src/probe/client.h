// Somebody connected to the probe's socket: what came in, what is on its way out.
#pragma once

#include <string>
#include <string_view>

#include "base/scoped_fd.h"
#include "wire/message.h"

namespace probing::probe {

// Closes a descriptor of ours and forgets it for forks, as one step for the job: a fork between the
// two would leave the descriptor to the child, or have the child close one that is the job's by now.
void CloseOwn(ScopedFd& fd);

class Client {
 public:
  explicit Client(ScopedFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool gone() const { return gone_; }
  bool has_outgoing() const { return !outgoing_.empty(); }
  wire::Decoder& decoder() { return decoder_; }

  // False when the other end is gone.
  [[nodiscard]] bool Receive();
  // `attached` is a descriptor that goes along; it is only borrowed, and has to stay open until the
  // client goes or asks for the next thing. −1 for none.
  [[nodiscard]] bool Send(std::string_view frame, int attached = -1);
  // Continues what the socket did not take at once.
  [[nodiscard]] bool Flush();
  void Close();

 private:
  ScopedFd socket_;
  wire::Decoder decoder_;
  std::string outgoing_;
  int attached_ = -1;
  std::size_t attached_at_ = 0;  // which byte of outgoing_ it goes with
  bool gone_ = false;
};

}  // namespace probing::probe
