// A column as it is declared (table/types.h) and as it is stored (ring/schema.h).
#pragma once

#include <string>

#include "ring/schema.h"
#include "table/types.h"

namespace probing::pyapi {

inline ring::ColumnType StoredType(table::Type type) {
  switch (type) {
    case table::Type::kInt64:
      return ring::ColumnType::kInt64;
    case table::Type::kDouble:
      return ring::ColumnType::kDouble;
    case table::Type::kBool:
      return ring::ColumnType::kBool;
    case table::Type::kString:
      return ring::ColumnType::kString;
    case table::Type::kBytes:
      return ring::ColumnType::kBytes;
    case table::Type::kTimestamp:
      return ring::ColumnType::kTimestamp;
  }
  return ring::ColumnType::kInt64;
}

inline table::Type Declared(ring::ColumnType type) {
  for (const table::Type candidate : {table::Type::kDouble, table::Type::kBool, table::Type::kString,
                                      table::Type::kBytes, table::Type::kTimestamp}) {
    if (StoredType(candidate) == type) return candidate;
  }
  return table::Type::kInt64;
}

inline ring::Column InRing(const table::Column& column) {
  return {std::string(column.name), StoredType(column.type)};
}

}  // namespace probing::pyapi
