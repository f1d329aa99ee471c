// An engine over made-up rows, the same in every run: what the tests of this folder and tests/sql
// query.
//
// Two targets: 100 (rank 0 of host "one"), which is selected, and 101 (rank 1 of "two"), which only
// `global` sees. Every table has ten rows for each: row i is (10 - i) minutes and 30 seconds... back
// from now, integers are i, doubles i / 2, flags whether i is even, strings the column's name and
// i modulo 3. In row 7 everything but the time is NULL.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "query/engine.h"
#include "table/source.h"

namespace probing::query {

std::vector<std::shared_ptr<table::Source>> SampleSources();
std::vector<table::Target> SampleTargets();

// One for the whole test program: opening one takes some 30 ms.
Engine& SampleEngine();

// Rows as text: values with a tab between them, NULL as NULL, an empty text as (empty).
struct TextResult {
  std::vector<std::string> names;
  std::string types;  // T text, I integer, R real, B bool, one letter for each column
  std::vector<std::string> rows;
  std::optional<SqlError> error;
  std::vector<std::string> warnings;
};
TextResult RunSample(std::string_view sql, const Limits& limits = {});

}  // namespace probing::query
