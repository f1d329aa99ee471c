#include "query/flat_buffer.h"

#include <algorithm>
#include <cstring>

namespace probing::query {

void FlatBuffer::Align(std::size_t to, std::size_t ahead) {
  while ((bytes_.size() + ahead) % to != 0) bytes_ += '\0';
}

void FlatBuffer::PointHere(Place place) {
  const auto distance = static_cast<std::uint32_t>(bytes_.size() - place);
  std::memcpy(bytes_.data() + place, &distance, sizeof(distance));
}

// In front of the table lies its vtable: sizes, then for each field number where it is.
std::vector<FlatBuffer::Place> FlatBuffer::Table(Place place, std::initializer_list<Field> fields) {
  int last_id = -1;
  for (const Field& field : fields) last_id = std::max(last_id, field.id);
  std::vector<std::uint16_t> offsets(static_cast<std::size_t>(last_id + 1), 0);
  std::size_t size = 4;  // the distance to the vtable comes first
  for (const Field& field : fields) {
    const auto bytes = static_cast<std::size_t>(field.bytes == kReference ? 4 : field.bytes);
    size = (size + bytes - 1) / bytes * bytes;
    offsets[static_cast<std::size_t>(field.id)] = static_cast<std::uint16_t>(size);
    size += bytes;
  }
  const std::size_t vtable_bytes = 4 + 2 * offsets.size();
  Align(8, vtable_bytes);
  Append(static_cast<std::uint16_t>(vtable_bytes));
  Append(static_cast<std::uint16_t>(size));
  for (const std::uint16_t offset : offsets) Append(offset);

  PointHere(place);
  const std::size_t start = bytes_.size();
  Append(static_cast<std::int32_t>(vtable_bytes));
  bytes_.append(size - 4, '\0');
  std::vector<Place> places;
  for (const Field& field : fields) {
    const std::size_t at = start + offsets[static_cast<std::size_t>(field.id)];
    if (field.bytes == kReference)
      places.push_back(at);
    else
      std::memcpy(bytes_.data() + at, &field.value, static_cast<std::size_t>(field.bytes));
  }
  return places;
}

void FlatBuffer::String(Place place, std::string_view text) {
  Align(4);
  PointHere(place);
  Append(static_cast<std::uint32_t>(text.size()));
  bytes_ += text;
  bytes_ += '\0';
}

std::vector<FlatBuffer::Place> FlatBuffer::References(Place place, std::size_t count) {
  Align(4);
  PointHere(place);
  Append(static_cast<std::uint32_t>(count));
  std::vector<Place> places;
  for (std::size_t i = 0; i < count; ++i) {
    places.push_back(bytes_.size());
    Append(std::uint32_t{0});
  }
  return places;
}

void FlatBuffer::Pairs(Place place, const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  Align(8, 4);
  PointHere(place);
  Append(static_cast<std::uint32_t>(pairs.size()));
  for (const auto& [first, second] : pairs) {
    Append(first);
    Append(second);
  }
}

std::string FlatBuffer::Take() {
  Align(8);
  return std::move(bytes_);
}

}  // namespace probing::query
