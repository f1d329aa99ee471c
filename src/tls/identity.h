// What a probingd shows to other machines: a certificate and its key.
//
// Its user may give one that others vouch for. Otherwise it makes one itself, once, and keeps it: clients
// remember its fingerprint when they see it first (known_hosts.h).
#pragma once

#include <string>

#include "base/result.h"

namespace probing::tls {

// Of TLS 1.2, for servers and clients: suites that authenticate what they encrypt (AEAD), with forward
// secrecy. TLS 1.3 has no others.
inline constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

struct Identity {
  std::string certificate_pem;  // with the chain above it, if there is one
  std::string key_pem;
  std::string fingerprint;  // "sha256:…", as clients show it
};

// From files of the user's; key_path may be "" when the key is in the same file. kUsage when they do not
// belong together.
Result<Identity> LoadIdentity(const std::string& certificate_path, const std::string& key_path);

// The one in `path`, which only its user may read; made when it is missing. Several may ask at once: all
// get the same. It is valid for ten years: what counts is that it stays the same.
Result<Identity> OwnIdentity(const std::string& path, const std::string& host_name);

}  // namespace probing::tls
