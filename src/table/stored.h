// A column as it is declared (table/types.h) and as it is stored (ring/schema.h).
#pragma once

#include <string>

#include "ring/schema.h"
#include "table/types.h"

namespace probing::table {

inline ring::ColumnType StoredType(Type type) {
  switch (type) {
    case Type::kInt64:
      return ring::ColumnType::kInt64;
    case Type::kDouble:
      return ring::ColumnType::kDouble;
    case Type::kBool:
      return ring::ColumnType::kBool;
    case Type::kString:
      return ring::ColumnType::kString;
    case Type::kBytes:
      return ring::ColumnType::kBytes;
    case Type::kTimestamp:
      return ring::ColumnType::kTimestamp;
  }
  return ring::ColumnType::kInt64;
}

inline Type FromRing(ring::ColumnType type) {
  switch (type) {
    case ring::ColumnType::kInt64:
      return Type::kInt64;
    case ring::ColumnType::kDouble:
      return Type::kDouble;
    case ring::ColumnType::kBool:
      return Type::kBool;
    case ring::ColumnType::kString:
      return Type::kString;
    case ring::ColumnType::kBytes:
      return Type::kBytes;
    case ring::ColumnType::kTimestamp:
      return Type::kTimestamp;
  }
  return Type::kBytes;
}

inline ring::Column InRing(const Column& column) {
  return {std::string(column.name), StoredType(column.type)};
}

}  // namespace probing::table
