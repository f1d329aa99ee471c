// Writes FlatBuffers from front to back: a table first, then what its fields point to.
//
// Arrow's metadata needs a handful of small tables; this is all of the format that they use. It
// is 100 lines here against 30,000 of nanoarrow with its FlatBuffers compiler's output.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace probing::query {

class FlatBuffer {
 public:
  // A place that holds the distance to something which is written later.
  using Place = std::size_t;

  struct Field {
    int id;     // as numbered in the schema
    int bytes;  // 1, 2, 4 or 8; kReference for an offset
    std::uint64_t value = 0;
  };
  static constexpr int kReference = 0;

  // `root` is where the buffer's only entry points to: the first table.
  FlatBuffer() : bytes_(4, '\0') {}
  Place root() const { return 0; }

  // Writes a table at `place`. Returns the places of its references, in the order of `fields`.
  std::vector<Place> Table(Place place, std::initializer_list<Field> fields);
  void String(Place place, std::string_view text);
  // A vector of references: their places.
  std::vector<Place> References(Place place, std::size_t count);
  // A vector of structs of two 64-bit numbers.
  void Pairs(Place place, const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);

  // Padded to a multiple of 8.
  std::string Take();

 private:
  void Align(std::size_t to, std::size_t ahead = 0);  // so that what comes `ahead` bytes later is aligned
  void PointHere(Place place);
  template <typename T>
  void Append(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  std::string bytes_;
};

}  // namespace probing::query
