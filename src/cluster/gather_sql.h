// What other hosts are asked for one table of a query, and what the answers weigh.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "query/request.h"

namespace probing::cluster {

// How many rows there are, how many the probes there could not keep, and how many bytes the texts of the rows
// have: three numbers.
std::string CountSql(const query::GatherRequest& request);
// The rows. A time is its nanoseconds; without columns there is one of type bool.
std::string RowsSql(const query::GatherRequest& request);

std::vector<table::Type> TypesOf(const query::GatherRequest& request);

// What one row takes on the way at most, without its texts.
std::int64_t RowBytes(const query::GatherRequest& request);

}  // namespace probing::cluster
