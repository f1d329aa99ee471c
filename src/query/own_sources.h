// Sources that need nothing but the declarations: probing.tables, probing.columns, and what a
// table without a source of its own answers.
#pragma once

#include <memory>

#include "table/source.h"

namespace probing::query {

std::shared_ptr<table::Source> MakeTablesSource();
std::shared_ptr<table::Source> MakeColumnsSource();

// A live table that nobody here can produce: an error that says so.
std::shared_ptr<table::Source> MakeMissingSource(const table::Table& table);

// A stored table that nothing was written into: no rows.
std::shared_ptr<table::Source> MakeEmptySource(const table::Table& table);

}  // namespace probing::query
