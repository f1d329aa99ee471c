#include "tls/handle.h"

#include <openssl/err.h>

#include <array>

namespace probing::tls {

Error OpenSslError(std::string what) {
  const unsigned long number = ERR_get_error();
  ERR_clear_error();
  const char* reason = number != 0 ? ERR_reason_error_string(number) : nullptr;
  return {Code::kFailed, what + ": " + (reason != nullptr ? reason : "no reason given"), ""};
}

std::string FingerprintOf(const X509& certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (X509_digest(&certificate, EVP_sha256(), digest.data(), &size) != 1) return "";
  std::string text = "sha256:";
  for (unsigned i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4U];
    text += "0123456789abcdef"[digest[i] & 15U];
  }
  return text;
}

}  // namespace probing::tls
