#include "tls/client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <array>

#include "tls/handle.h"
#include "tls/identity.h"

namespace probing::tls {

struct Client::State {
  ScopedFd socket;
  Context context;
  Session session;  // refers to both
  std::string fingerprint;
  bool is_trusted = false;
};

namespace {

enum class Step { kDone, kAgain, kEnd };

// What came of a call of OpenSSL's: waits for the socket when that is what it needs.
Result<Step> After(int returned, SSL* session, int fd, const Deadline* deadline, const std::string& what) {
  if (returned > 0) return Step::kDone;
  const int saved_errno = errno;
  const int problem = SSL_get_error(session, returned);
  if (problem == SSL_ERROR_ZERO_RETURN) return Step::kEnd;
  if (problem == SSL_ERROR_SYSCALL && saved_errno != 0) return ErrnoError(what, saved_errno);
  if (problem == SSL_ERROR_SYSCALL) return Step::kEnd;
  if (problem != SSL_ERROR_WANT_READ && problem != SSL_ERROR_WANT_WRITE) {
    // Who goes away without a word of farewell has gone all the same; lengths are HTTP's business.
    const bool is_eof = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    Error error = OpenSslError(what);
    if (is_eof) return Step::kEnd;
    return error;
  }
  pollfd ready{fd, static_cast<short>(problem == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
  const int n = poll(&ready, 1, deadline != nullptr ? deadline->left_ms() : -1);
  if (n == 0) return Error{Code::kTimeout, what + ": no answer in time", ""};
  if (n < 0 && errno != EINTR) return ErrnoError(what);
  return Step::kAgain;
}

bool IsAddress(const std::string& host) {
  std::array<unsigned char, 16> bytes;
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() {
  if (state_ != nullptr && state_->session != nullptr) SSL_shutdown(state_->session.get());
}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

bool Client::is_trusted() const { return state_->is_trusted; }
const std::string& Client::fingerprint() const { return state_->fingerprint; }

Result<Client> Client::Connect(ScopedFd socket, const std::string& host, const Deadline& deadline,
                               const std::string& authority_file) {
  auto state = std::make_unique<State>();
  state->socket = std::move(socket);
  const int fd = state->socket.get();
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  state->context.reset(SSL_CTX_new(TLS_client_method()));
  if (state->context == nullptr) return OpenSslError("prepare TLS");
  SSL_CTX_set_min_proto_version(state->context.get(), TLS1_2_VERSION);
  if (SSL_CTX_set_cipher_list(state->context.get(), kCiphers) != 1)
    return OpenSslError("choose the ciphers of TLS");
  SSL_CTX_set_default_verify_paths(state->context.get());
  if (!authority_file.empty() && SSL_CTX_load_verify_file(state->context.get(), authority_file.c_str()) != 1)
    return OpenSslError("read the authorities in " + authority_file);
  SSL_CTX_set_mode(state->context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // The outcome of the check is looked at below; a self-made certificate fails it.
  SSL_CTX_set_verify(state->context.get(), SSL_VERIFY_NONE, nullptr);
  state->session.reset(SSL_new(state->context.get()));
  SSL* session = state->session.get();
  if (session == nullptr || SSL_set_fd(session, fd) != 1) return OpenSslError("prepare TLS");
  X509_VERIFY_PARAM* names = SSL_get0_param(session);
  if (IsAddress(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(names, host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_host(names, host.c_str(), host.size());
    SSL_set_tlsext_host_name(session, host.c_str());
  }
  while (true) {
    ERR_clear_error();
    errno = 0;
    Result<Step> step = After(SSL_connect(session), session, fd, &deadline, "shake hands with " + host);
    if (!step.ok()) return std::move(step.error());
    if (*step == Step::kDone) break;
    if (*step == Step::kEnd) {
      return Error{Code::kFailed, host + " hung up instead of shaking hands",
                   "is it a probingd of this version, and is encryption on there?"};
    }
  }
  const Certificate certificate(SSL_get1_peer_certificate(session));
  if (certificate == nullptr) return Error{Code::kFailed, host + " shows no certificate", ""};
  state->fingerprint = FingerprintOf(*certificate);
  state->is_trusted = SSL_get_verify_result(session) == X509_V_OK;
  return Client(std::move(state));
}

Result<void> Client::Write(std::string_view data, const Deadline& deadline) {
  while (!data.empty()) {
    ERR_clear_error();
    errno = 0;
    std::size_t written = 0;
    const int returned = SSL_write_ex(state_->session.get(), data.data(), data.size(), &written);
    ASSIGN_OR_RETURN(const Step step, After(returned, state_->session.get(), state_->socket.get(), &deadline,
                                            "send the request"));
    if (step == Step::kEnd) return Error{Code::kFailed, "the other end closed the connection", ""};
    if (step == Step::kDone) data.remove_prefix(written);
  }
  return {};
}

Result<bool> Client::Read(std::string& buffer, const Deadline* deadline) {
  std::array<char, 16384> bytes;
  while (true) {
    ERR_clear_error();
    errno = 0;
    std::size_t got = 0;
    const int returned = SSL_read_ex(state_->session.get(), bytes.data(), bytes.size(), &got);
    ASSIGN_OR_RETURN(const Step step, After(returned, state_->session.get(), state_->socket.get(), deadline,
                                            "read the answer"));
    if (step == Step::kEnd) return false;
    if (step != Step::kDone) continue;
    buffer.append(bytes.data(), got);
    return true;
  }
}

}  // namespace probing::tls
