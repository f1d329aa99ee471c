// TLS over a connected socket, for one who sends a request and waits for the answer. Blocking; not
// thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::tls {

class Client {
 public:
  // Shakes hands within the deadline. Any certificate will do here: is_trusted() and fingerprint() are for
  // the caller to judge by, before anything is sent. Authorities are those of this machine and of the file,
  // if one is given. REQUIRES: SIGPIPE is ignored.
  static Result<Client> Connect(ScopedFd socket, const std::string& host, const Deadline& deadline,
                                const std::string& authority_file = "");
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // Whether an authority this machine trusts says that the certificate is the host's.
  bool is_trusted() const;
  const std::string& fingerprint() const;

  Result<void> Write(std::string_view data, const Deadline& deadline);
  // Appends what is there, waiting for it; without a deadline for ever. False at the end.
  Result<bool> Read(std::string& buffer, const Deadline* deadline);

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace probing::tls
