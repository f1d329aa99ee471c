#include "tls/identity.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "tls/handle.h"

namespace probing::tls {
namespace {

constexpr long kValidSeconds = 10L * 365 * 86400;
constexpr long kClockErrorSeconds = 86400;  // of clients whose clock is behind

Bio Reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size > 0 ? size : 0)};
}

// What the first line a certificate's maker sees should say, and which names it is for.
bool Name(X509* certificate, const std::string& host_name) {
  X509_NAME* name = X509_get_subject_name(certificate);
  const std::string common = "probingd of " + host_name.substr(0, 40);
  const bool named =
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1, 0) == 1 &&
      X509_set_issuer_name(certificate, name) == 1;
  if (!named) return false;
  std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  const bool is_plain = !host_name.empty() && host_name.find_first_not_of(
                                                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                  "0123456789-.") == std::string::npos;
  if (is_plain) names += ",DNS:" + host_name;
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

Result<std::string> MakeIdentity(const std::string& host_name) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  std::uint64_t serial = 0;
  const bool made = key != nullptr && certificate != nullptr && X509_set_version(certificate.get(), 2) == 1 &&
                    RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1 &&
                    ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1U) == 1 &&
                    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kClockErrorSeconds) != nullptr &&
                    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kValidSeconds) != nullptr &&
                    X509_set_pubkey(certificate.get(), key.get()) == 1 &&
                    Name(certificate.get(), host_name) &&
                    X509_sign(certificate.get(), key.get(), EVP_sha256()) != 0;
  if (!made) return OpenSslError("make a certificate");
  const Bio text(BIO_new(BIO_s_mem()));
  const bool written =
      text != nullptr && PEM_write_bio_X509(text.get(), certificate.get()) == 1 &&
      PEM_write_bio_PKCS8PrivateKey(text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  if (!written) return OpenSslError("write a certificate");
  return TextOf(text.get());
}

// Whole or not at all, and never over one that is there already.
Result<void> Keep(const std::string& path, const std::string& text) {
  const std::string hidden = path + "." + std::to_string(getpid());
  {
    const ScopedFd file(open(hidden.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return ErrnoError("write " + hidden);
    RETURN_IF_ERROR(WriteAll(file.get(), text));
  }
  const bool kept = link(hidden.c_str(), path.c_str()) == 0 || errno == EEXIST;
  const int error = errno;
  unlink(hidden.c_str());
  return kept ? Result<void>() : Result<void>(ErrnoError("write " + path, error));
}

Result<Identity> Parse(std::string certificate_pem, std::string key_pem, const std::string& path) {
  const Bio certificate_text = Reader(certificate_pem);
  const Certificate certificate(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
  const std::string hint = "it is a PEM file: -----BEGIN CERTIFICATE-----, and the key in it or in another";
  if (certificate == nullptr) {
    Error error = OpenSslError("there is no certificate in " + path);
    return Error{Code::kUsage, error.message, hint};
  }
  const Bio key_text = Reader(key_pem);
  // A password would be asked for at a terminal, which a daemon has not got.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, no_password, nullptr));
  if (key == nullptr) {
    Error error = OpenSslError("there is no key, or one with a password, for " + path);
    return Error{Code::kUsage, error.message, hint};
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    (void)OpenSslError("");
    return Error{Code::kUsage, "the key does not belong to the certificate in " + path, ""};
  }
  return Identity{std::move(certificate_pem), std::move(key_pem), FingerprintOf(*certificate)};
}

}  // namespace

Result<Identity> LoadIdentity(const std::string& certificate_path, const std::string& key_path) {
  ASSIGN_OR_RETURN(std::string certificate, ReadFile(certificate_path));
  std::string key = certificate;
  if (!key_path.empty()) {
    ASSIGN_OR_RETURN(key, ReadFile(key_path));
  }
  return Parse(std::move(certificate), std::move(key), certificate_path);
}

Result<Identity> OwnIdentity(const std::string& path, const std::string& host_name) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) {
    ASSIGN_OR_RETURN(const std::string made, MakeIdentity(host_name));
    RETURN_IF_ERROR(Keep(path, made));
  } else if (info.st_uid != geteuid() || (info.st_mode & 077U) != 0) {
    return Error{Code::kPermission, path + " can be read by others, and has a secret key in it",
                 "remove it, and another one is made; clients will ask about the new one"};
  }
  return LoadIdentity(path, "");
}

}  // namespace probing::tls
