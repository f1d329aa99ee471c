// probing.tables, probing.columns, and what a live table without a source of its own answers.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "table/source.h"

namespace probing::query {

// All that can be queried: the declared tables and, behind them, those that the job made.
using ListTables = std::function<std::vector<const table::Table*>()>;

std::shared_ptr<table::Source> MakeTablesSource(ListTables list);
std::shared_ptr<table::Source> MakeColumnsSource(ListTables list);

// A live table that nobody here can produce: an error that says so.
std::shared_ptr<table::Source> MakeMissingSource(const table::Table& table);

}  // namespace probing::query
