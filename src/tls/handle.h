// OpenSSL's objects with owners, and its errors as ours. Internal to src/tls.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace probing::tls {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL_free>>;

// "what: the last thing OpenSSL complained about". Empties its list of complaints.
Error OpenSslError(std::string what);

// "sha256:…" of the certificate's bytes; "" when there is no memory left.
std::string FingerprintOf(const X509& certificate);

}  // namespace probing::tls
