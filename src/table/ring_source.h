// Rows of stored tables, read from the targets' rings.
#pragma once

#include <memory>
#include <vector>

#include "ring/scan.h"
#include "ring/schema.h"
#include "table/ring_batch.h"
#include "table/source.h"

namespace probing::table {

// What a declared table is for the ring's writer.
std::vector<ring::Column> RingColumns(const Table& table);

// The rows of one ring, in one part or, when they are many, in several that can be read side by side.
// `start`: only the rows behind it; null for all. REQUIRES: `table` outlives the parts.
std::vector<Part> RingParts(const Table& table, const Target& target,
                            const std::shared_ptr<const ScopedFd>& fd,
                            const std::shared_ptr<const ScanRequest>& request,
                            const std::shared_ptr<const ring::Cursor>& start = nullptr);

// probing.drops: what each table in the rings has, and what it has lost.
std::unique_ptr<Source> MakeDropsSource();

}  // namespace probing::table
