#include "query/scan_catalog.h"

#include <utility>

namespace probing::query {

void Scope::Warn(std::string warning) {
  const std::lock_guard lock(mutex_);
  warnings_.push_back(std::move(warning));
}

std::vector<std::string> Scope::TakeWarnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

void ScanCatalog::Add(std::shared_ptr<table::Source> source) {
  std::string name(source->table().name);
  sources_[std::move(name)] = std::move(source);
}

void ScanCatalog::Remove(std::string_view table) {
  if (const auto found = sources_.find(table); found != sources_.end()) sources_.erase(found);
}

std::shared_ptr<table::Source> ScanCatalog::Find(std::string_view table) const {
  const auto found = sources_.find(table);
  return found == sources_.end() ? nullptr : found->second;
}

void ScanCatalog::Enter(std::shared_ptr<Scope> scope) {
  scope_ = std::move(scope);
  by_last_name_.clear();
}

void ScanCatalog::Leave() { scope_.reset(); }

}  // namespace probing::query
