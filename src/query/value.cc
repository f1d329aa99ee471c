#include "query/value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "query/value_time.h"
#include "table/text.h"

namespace probing::query {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

template <typename T>
void AppendInteger(std::string& out, T value) {
  std::array<char, 24> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), end);
}

template <typename T>
void AppendReal(std::string& out, T value) {
  if (std::isnan(value)) {
    out += "nan";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else {
    std::array<char, 64> text;
    const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
    const std::string_view written(text.data(), static_cast<std::size_t>(end - text.data()));
    out += written;
    // 3.0 must not look like an integer.
    if (written.find_first_of(".e") == std::string_view::npos) out += ".0";
  }
}

using Uint128 = unsigned __int128;

void AppendWide(std::string& out, Uint128 value, bool negative, int scale) {
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  if (scale > 0) {
    const auto wanted = static_cast<std::size_t>(scale) + 1;
    if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
    digits.insert(digits.size() - static_cast<std::size_t>(scale), ".");
  }
  if (negative) out += '-';
  out += digits;
}

void AppendSigned(std::string& out, __int128 value, int scale) {
  const bool negative = value < 0;
  AppendWide(out, negative ? Uint128{0} - static_cast<Uint128>(value) : static_cast<Uint128>(value), negative,
             scale);
}

Uint128 Join(std::uint64_t upper, std::uint64_t lower) { return (static_cast<Uint128>(upper) << 64) | lower; }

// As DuckDB casts a BLOB to text: printable ASCII as it is, all else as \xAB.
void AppendBlob(std::string& out, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte < 127 && c != '\\' && c != '\'' && c != '"') {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
}

// The first byte is the number of bits in the second that do not count.
void AppendBits(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return;
  const auto skip = static_cast<std::size_t>(static_cast<unsigned char>(bytes[0]));
  for (std::size_t i = skip; i < (bytes.size() - 1) * 8; ++i)
    out += (static_cast<unsigned char>(bytes[1 + i / 8]) >> (7 - i % 8) & 1) != 0 ? '1' : '0';
}

// DuckDB flips the top bit so that UUIDs sort as numbers do.
void AppendUuid(std::string& out, const duckdb_hugeint& value) {
  const Uint128 bits = Join(static_cast<std::uint64_t>(value.upper) ^ (std::uint64_t{1} << 63), value.lower);
  for (int nibble = 31; nibble >= 0; --nibble) {
    out += Lower(kHex[static_cast<unsigned>(bits >> (nibble * 4)) & 15]);
    if (nibble == 24 || nibble == 20 || nibble == 16 || nibble == 12) out += '-';
  }
}

}  // namespace

std::string_view ColumnView::bytes(std::uint64_t row) const { return at<table::Text>(row).view(); }

__int128 ColumnView::Integer(std::uint64_t row) const {
  switch (type_.id == DUCKDB_TYPE_HUGEINT ? type_.id : type_.stored_as) {
    case DUCKDB_TYPE_UTINYINT:
      return at<std::uint8_t>(row);
    case DUCKDB_TYPE_USMALLINT:
      return at<std::uint16_t>(row);
    case DUCKDB_TYPE_UINTEGER:
      return at<std::uint32_t>(row);
    case DUCKDB_TYPE_SMALLINT:
      return at<std::int16_t>(row);
    case DUCKDB_TYPE_INTEGER:
      return at<std::int32_t>(row);
    case DUCKDB_TYPE_BIGINT:
      return at<std::int64_t>(row);
    case DUCKDB_TYPE_HUGEINT: {
      const auto& wide = at<duckdb_hugeint>(row);
      return static_cast<__int128>(Join(static_cast<std::uint64_t>(wide.upper), wide.lower));
    }
    default:
      return 0;
  }
}

void ColumnView::AppendText(std::string& out, std::uint64_t row) const {
  switch (type_.id) {
    case DUCKDB_TYPE_BOOLEAN:
      out += at<bool>(row) ? "true" : "false";
      break;
    case DUCKDB_TYPE_TINYINT:
      AppendInteger(out, at<std::int8_t>(row));
      break;
    case DUCKDB_TYPE_SMALLINT:
      AppendInteger(out, at<std::int16_t>(row));
      break;
    case DUCKDB_TYPE_INTEGER:
      AppendInteger(out, at<std::int32_t>(row));
      break;
    case DUCKDB_TYPE_BIGINT:
      AppendInteger(out, at<std::int64_t>(row));
      break;
    case DUCKDB_TYPE_UTINYINT:
      AppendInteger(out, at<std::uint8_t>(row));
      break;
    case DUCKDB_TYPE_USMALLINT:
      AppendInteger(out, at<std::uint16_t>(row));
      break;
    case DUCKDB_TYPE_UINTEGER:
      AppendInteger(out, at<std::uint32_t>(row));
      break;
    case DUCKDB_TYPE_UBIGINT:
      AppendInteger(out, at<std::uint64_t>(row));
      break;
    case DUCKDB_TYPE_FLOAT:
      AppendReal(out, at<float>(row));
      break;
    case DUCKDB_TYPE_DOUBLE:
      AppendReal(out, at<double>(row));
      break;
    case DUCKDB_TYPE_HUGEINT:
      AppendSigned(out, Integer(row), 0);
      break;
    case DUCKDB_TYPE_UHUGEINT: {
      const auto& wide = at<duckdb_uhugeint>(row);
      AppendWide(out, Join(wide.upper, wide.lower), false, 0);
      break;
    }
    case DUCKDB_TYPE_DECIMAL:
      AppendSigned(out, Integer(row), type_.scale);
      break;
    case DUCKDB_TYPE_ENUM: {
      const auto index = static_cast<std::size_t>(Integer(row));
      if (index < type_.names.size()) out += type_.names[index];
      break;
    }
    case DUCKDB_TYPE_VARCHAR:
      out += bytes(row);
      break;
    case DUCKDB_TYPE_BLOB:
      AppendBlob(out, bytes(row));
      break;
    case DUCKDB_TYPE_BIT:
      AppendBits(out, bytes(row));
      break;
    case DUCKDB_TYPE_UUID:
      AppendUuid(out, at<duckdb_hugeint>(row));
      break;
    case DUCKDB_TYPE_DATE:
      AppendDate(out, at<std::int32_t>(row));
      break;
    case DUCKDB_TYPE_TIME:
      AppendTimeOfDay(out, at<std::int64_t>(row), 6);
      break;
    case DUCKDB_TYPE_TIME_NS:
      AppendTimeOfDay(out, at<std::int64_t>(row), 9);
      break;
    case DUCKDB_TYPE_TIME_TZ: {
      // 40 bits of microseconds, 24 bits of (the latest offset minus the offset).
      const auto packed = at<std::uint64_t>(row);
      AppendTimeOfDay(out, static_cast<std::int64_t>(packed >> 24), 6);
      AppendZone(out, 57'599 - static_cast<std::int32_t>(packed & 0xFFFFFF));
      break;
    }
    case DUCKDB_TYPE_TIMESTAMP:
      AppendTimestamp(out, at<std::int64_t>(row), 6);
      break;
    case DUCKDB_TYPE_TIMESTAMP_S:
      AppendTimestamp(out, at<std::int64_t>(row), 0);
      break;
    case DUCKDB_TYPE_TIMESTAMP_MS:
      AppendTimestamp(out, at<std::int64_t>(row), 3);
      break;
    case DUCKDB_TYPE_TIMESTAMP_NS:
      AppendTimestamp(out, at<std::int64_t>(row), 9);
      break;
    case DUCKDB_TYPE_TIMESTAMP_TZ:
      AppendTimestamp(out, at<std::int64_t>(row), 6);
      if (out.back() != 'y') out += "+00";  // infinity has no zone
      break;
    case DUCKDB_TYPE_INTERVAL: {
      const auto& interval = at<duckdb_interval>(row);
      AppendInterval(out, interval.months, interval.days, interval.micros);
      break;
    }
    default:
      if (type_.is_nested())
        AppendNestedText(out, row);
      else
        out += "(a value of a type that is not shown; cast it to VARCHAR)";
  }
}

}  // namespace probing::query
