#include "wire/contract.h"

#include <array>

namespace probing::wire {
namespace {

struct CodeRow {
  Code code;
  std::string_view name;
  int http_status;
};
constexpr std::array kCodes{
    CodeRow{Code::kOk, "ok", 200},
    CodeRow{Code::kFailed, "failed", 500},
    CodeRow{Code::kUsage, "usage", 400},
    CodeRow{Code::kPermission, "permission", 403},
    CodeRow{Code::kNotFound, "not_found", 404},
    CodeRow{Code::kTimeout, "timeout", 504},
    CodeRow{Code::kPartial, "partial", 206},
    CodeRow{Code::kMistake, "failed", 400},  // for clients the command failed, as it did
};

const CodeRow& RowOf(Code code) {
  for (const CodeRow& row : kCodes) {
    if (row.code == code) return row;
  }
  return RowOf(Code::kFailed);
}

}  // namespace

std::string_view CodeName(Code code) { return RowOf(code).name; }
int HttpStatus(Code code) { return RowOf(code).http_status; }

Code CodeFromName(std::string_view name) {
  for (const CodeRow& row : kCodes) {
    if (row.name == name) return row.code;
  }
  return Code::kFailed;
}

}  // namespace probing::wire
