// Result<T>: a value or an Error, in the shape of std::expected (C++23).
//
// Everything that can fail returns one. An Error carries what was tried and why in
// `message`, what the user can do next in `hint`, and the kind of failure in `code`,
// which is also the exit code of the command line.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace probing {

enum class Code : std::uint8_t {
  kOk = 0,
  kFailed = 1,      // the target or the request failed
  kUsage = 2,       // wrong usage
  kPermission = 3,  // not allowed
  kNotFound = 4,    // no such target
  kTimeout = 5,     // did not finish in time
  kPartial = 6,     // some ranks did not answer
  kMistake = 7,     // what was asked for is wrong (SQL): "failed" to clients, and HTTP 400 instead of 500
};

struct Error {
  Code code = Code::kFailed;
  std::string message;
  std::string hint;
};

// The symbolic name of an errno value ("EPERM"), because numbers help nobody.
const char* ErrnoName(int error_number);

// "what: EPERM (Operation not permitted)". The code follows from errno: EPERM and EACCES
// are kPermission, ESRCH is kNotFound, anything else is kFailed.
Error ErrnoError(std::string what, int error_number = errno);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit, like std::expected
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

  // REQUIRES: !ok().
  Error& error() { return *std::get_if<1>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  // REQUIRES: !ok().
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace probing

#define PROBING_CONCAT_(a, b) a##b
#define PROBING_CONCAT(a, b) PROBING_CONCAT_(a, b)

// Leaves the enclosing function with the error of `expr`, if it has one.
#define RETURN_IF_ERROR(expr)                 \
  do {                                        \
    if (auto status = (expr); !status.ok()) { \
      return std::move(status.error());       \
    }                                         \
  } while (false)

// `ASSIGN_OR_RETURN(auto maps, ReadMaps(pid));`
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_(PROBING_CONCAT(result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_(result, lhs, expr)          \
  auto result = (expr);                               \
  if (!result.ok()) return std::move(result.error()); \
  lhs = std::move(*result)
