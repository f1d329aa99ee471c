// An Arrow IPC stream (Arrow columnar format 1.0, metadata version 5), written by hand: a schema and
// one record batch for each chunk. Nested values, intervals and other rare types travel as text.
#include <cstring>

#include "query/flat_buffer.h"
#include "query/format.h"

namespace probing::query {
namespace {

// Numbers of Arrow's Schema.fbs and Message.fbs.
constexpr std::uint64_t kMetadataV5 = 4;
constexpr std::uint64_t kHeaderSchema = 1;
constexpr std::uint64_t kHeaderRecordBatch = 3;
enum ArrowType : std::uint64_t {
  kInt = 2,
  kFloatingPoint = 3,
  kBinary = 4,
  kUtf8 = 5,
  kBool = 6,
  kDecimal = 7,
  kDate = 8,
  kTimestamp = 10,
};
enum TimeUnit : std::uint64_t { kSecond, kMillisecond, kMicrosecond, kNanosecond };

// How a column travels.
struct Shape {
  ArrowType type = kUtf8;
  int bytes = 0;            // of a value with a fixed size
  bool is_signed = true;    // of kInt
  TimeUnit unit = kSecond;  // of kTimestamp
  bool in_utc = false;
};

Shape ShapeOf(const ValueType& type) {
  switch (type.id) {
    case DUCKDB_TYPE_BOOLEAN:
      return {kBool};
    case DUCKDB_TYPE_TINYINT:
      return {kInt, 1};
    case DUCKDB_TYPE_SMALLINT:
      return {kInt, 2};
    case DUCKDB_TYPE_INTEGER:
      return {kInt, 4};
    case DUCKDB_TYPE_BIGINT:
      return {kInt, 8};
    case DUCKDB_TYPE_UTINYINT:
      return {kInt, 1, false};
    case DUCKDB_TYPE_USMALLINT:
      return {kInt, 2, false};
    case DUCKDB_TYPE_UINTEGER:
      return {kInt, 4, false};
    case DUCKDB_TYPE_UBIGINT:
      return {kInt, 8, false};
    case DUCKDB_TYPE_FLOAT:
      return {kFloatingPoint, 4};
    case DUCKDB_TYPE_DOUBLE:
      return {kFloatingPoint, 8};
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_DECIMAL:
      return {kDecimal, 16};
    case DUCKDB_TYPE_DATE:
      return {kDate, 4};
    case DUCKDB_TYPE_TIMESTAMP_S:
      return {kTimestamp, 8, true, kSecond};
    case DUCKDB_TYPE_TIMESTAMP_MS:
      return {kTimestamp, 8, true, kMillisecond};
    case DUCKDB_TYPE_TIMESTAMP:
      return {kTimestamp, 8, true, kMicrosecond};
    case DUCKDB_TYPE_TIMESTAMP_NS:
      return {kTimestamp, 8, true, kNanosecond};
    case DUCKDB_TYPE_TIMESTAMP_TZ:
      return {kTimestamp, 8, true, kMicrosecond, true};
    case DUCKDB_TYPE_BLOB:
      return {kBinary};
    default:
      return {kUtf8};
  }
}

void WriteType(FlatBuffer& buffer, FlatBuffer::Place place, const Shape& shape, const ValueType& type) {
  switch (shape.type) {
    case kInt:
      buffer.Table(place,
                   {{0, 4, static_cast<std::uint64_t>(shape.bytes * 8)}, {1, 1, shape.is_signed ? 1U : 0U}});
      break;
    case kFloatingPoint:
      buffer.Table(place, {{0, 2, shape.bytes == 4 ? 1U : 2U}});
      break;
    case kDecimal:
      buffer.Table(place, {{0, 4, static_cast<std::uint64_t>(type.width)},
                           {1, 4, static_cast<std::uint64_t>(type.scale)},
                           {2, 4, 128}});
      break;
    case kDate:
      buffer.Table(place, {{0, 2, 0}});
      break;
    case kTimestamp:
      if (shape.in_utc) {
        const auto places = buffer.Table(place, {{0, 2, shape.unit}, {1, FlatBuffer::kReference}});
        buffer.String(places[0], "UTC");
      } else {
        buffer.Table(place, {{0, 2, shape.unit}});
      }
      break;
    default:
      buffer.Table(place, {});
  }
}

void Pad(std::string& bytes) { bytes.append((8 - bytes.size() % 8) % 8, '\0'); }

// The parts of a record batch's body and what its metadata says about them.
struct Body {
  std::string bytes;
  std::vector<std::pair<std::int64_t, std::int64_t>> nodes;    // values, NULLs
  std::vector<std::pair<std::int64_t, std::int64_t>> buffers;  // offset, size

  void Add(const void* data, std::size_t size) {
    buffers.emplace_back(static_cast<std::int64_t>(bytes.size()), static_cast<std::int64_t>(size));
    if (size > 0) bytes.append(static_cast<const char*>(data), size);
    Pad(bytes);
  }
};

class ArrowWriter : public FormatWriter {
 public:
  ArrowWriter(const DuckDb& api, Output output) : api_(api), output_(std::move(output)) {}

  Result<void> Begin(duckdb_result& result) override {
    for (idx_t i = 0; i < api_.column_count(&result); ++i) {
      names_.emplace_back(api_.column_name(&result, i));
      duckdb_logical_type type = api_.column_logical_type(&result, i);
      types_.push_back(DescribeType(api_, type));
      shapes_.push_back(ShapeOf(types_.back()));
      api_.destroy_logical_type(&type);
    }
    return SendMessage(SchemaMetadata(), "");
  }

  Result<void> Write(duckdb_data_chunk chunk) override {
    const idx_t count = api_.data_chunk_get_size(chunk);
    Body body;
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const ColumnView column(api_, api_.data_chunk_get_vector(chunk, i), types_[i]);
      AddColumn(body, column, shapes_[i], count);
    }
    return SendMessage(BatchMetadata(body, count), body.bytes);
  }

  Result<void> End() override {
    constexpr char kEnd[] = "\xFF\xFF\xFF\xFF\0\0\0\0";
    return output_({kEnd, 8});
  }

 private:
  std::string SchemaMetadata() const {
    FlatBuffer buffer;
    const auto message = buffer.Table(
        buffer.root(), {{0, 2, kMetadataV5}, {1, 1, kHeaderSchema}, {2, FlatBuffer::kReference}, {3, 8, 0}});
    const auto schema = buffer.Table(message[0], {{0, 2, 0}, {1, FlatBuffer::kReference}});
    const auto fields = buffer.References(schema[0], names_.size());
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const auto field = buffer.Table(fields[i], {{0, FlatBuffer::kReference},
                                                  {1, 1, 1},  // may be NULL
                                                  {2, 1, shapes_[i].type},
                                                  {3, FlatBuffer::kReference},
                                                  {5, FlatBuffer::kReference}});
      buffer.String(field[0], names_[i]);
      WriteType(buffer, field[1], shapes_[i], types_[i]);
      buffer.References(field[2], 0);  // children
    }
    return buffer.Take();
  }

  std::string BatchMetadata(const Body& body, idx_t count) const {
    FlatBuffer buffer;
    const auto message = buffer.Table(buffer.root(), {{0, 2, kMetadataV5},
                                                      {1, 1, kHeaderRecordBatch},
                                                      {2, FlatBuffer::kReference},
                                                      {3, 8, body.bytes.size()}});
    const auto batch =
        buffer.Table(message[0], {{0, 8, count}, {1, FlatBuffer::kReference}, {2, FlatBuffer::kReference}});
    buffer.Pairs(batch[0], body.nodes);
    buffer.Pairs(batch[1], body.buffers);
    return buffer.Take();
  }

  Result<void> SendMessage(const std::string& metadata, const std::string& body) {
    std::string prefix(8, '\xFF');
    const auto size = static_cast<std::uint32_t>(metadata.size());
    std::memcpy(prefix.data() + 4, &size, sizeof(size));
    RETURN_IF_ERROR(output_(prefix + metadata));
    return body.empty() ? Result<void>() : output_(body);
  }

  static void AddColumn(Body& body, const ColumnView& column, const Shape& shape, idx_t count) {
    std::int64_t nulls = 0;
    std::vector<std::uint8_t> valid((count + 7) / 8, 0);
    for (idx_t row = 0; row < count; ++row) {
      if (column.IsNull(row))
        ++nulls;
      else
        valid[row / 8] |= static_cast<std::uint8_t>(1U << (row % 8));
    }
    body.nodes.emplace_back(static_cast<std::int64_t>(count), nulls);
    body.Add(valid.data(), nulls == 0 ? 0 : valid.size());
    if (shape.type == kUtf8 || shape.type == kBinary) {
      AddTexts(body, column, shape, count);
    } else if (shape.type == kBool) {
      std::vector<std::uint8_t> bits((count + 7) / 8, 0);
      for (idx_t row = 0; row < count; ++row) {
        if (!column.IsNull(row) && column.at<bool>(row))
          bits[row / 8] |= static_cast<std::uint8_t>(1U << (row % 8));
      }
      body.Add(bits.data(), bits.size());
    } else if (shape.type == kDecimal) {
      std::vector<__int128> wide(count, 0);
      for (idx_t row = 0; row < count; ++row) {
        if (!column.IsNull(row)) wide[row] = column.Integer(row);
      }
      body.Add(wide.data(), count * sizeof(__int128));
    } else {
      body.Add(&column.at<char>(0), count * static_cast<std::size_t>(shape.bytes));
    }
  }

  static void AddTexts(Body& body, const ColumnView& column, const Shape& shape, idx_t count) {
    std::vector<std::int32_t> offsets{0};
    std::string all;
    for (idx_t row = 0; row < count; ++row) {
      if (!column.IsNull(row)) {
        if (shape.type == kBinary)
          all += column.bytes(row);
        else
          column.AppendText(all, row);
      }
      offsets.push_back(static_cast<std::int32_t>(all.size()));
    }
    body.Add(offsets.data(), offsets.size() * sizeof(std::int32_t));
    body.Add(all.data(), all.size());
  }

  const DuckDb& api_;
  Output output_;
  std::vector<std::string> names_;
  std::vector<ValueType> types_;
  std::vector<Shape> shapes_;
};

}  // namespace

std::unique_ptr<FormatWriter> MakeArrowWriter(const DuckDb& api, Output output) {
  return std::make_unique<ArrowWriter>(api, std::move(output));
}

}  // namespace probing::query
