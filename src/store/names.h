// SQL with our names of tables, for a server that has others.
//
// `python.torch_steps` and `global.python.torch_steps` are both what all hosts have sent: in a store there is
// nothing else. Only names of tables that are there are touched, so everything else of ClickHouse's SQL, its
// `system.parts` included, means what it means there.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace probing::store {

// `tables` are ours, "python.torch_steps", in lower case. Texts, quoted names and comments stay as they are.
std::string WithStoredNames(std::string_view sql, const std::set<std::string, std::less<>>& tables,
                            std::string_view database);

}  // namespace probing::store
