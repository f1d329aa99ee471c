// ring_dump PID [hold]: all rows of a probe's rings as JSON lines, in the order they were written.
//
//   {"table": "python.gc", "row": {"timestamp": 1, …}}      bytes are {"hex": "00ff"}
//   {"table": "python.gc", "written": 3, "overwritten": 0, "dropped": 0, "refused": 0, "closed": false}
//
// With `hold` it gets the rings, says "ready" and waits for the end of its input first: the target
// may die meanwhile. Live tables: ring_dump PID live TABLE COLUMN… prints the encoded rows as hex.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ring/reader.h"
#include "wire/message.h"
#include "wire/rendezvous.h"

namespace {

using namespace probing;

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20) {
      quoted += "\\u00" + Hex({&c, 1});
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";  // as Python's json reads it
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[40];
  std::snprintf(text, sizeof(text), "%.17e", value);
  return text;
}

std::string Value(const ring::Batch& batch, std::size_t column, std::size_t row, ring::ColumnType type) {
  if (batch.IsNull(column, row)) return "null";
  switch (type) {
    case ring::ColumnType::kDouble:
      return Number(batch.Doubles(column)[row]);
    case ring::ColumnType::kBool:
      return batch.Bools(column)[row] != 0 ? "true" : "false";
    case ring::ColumnType::kString:
      return Quoted(batch.Texts(column)[row]);
    case ring::ColumnType::kBytes:
      return "{\"hex\": \"" + Hex(batch.Texts(column)[row]) + "\"}";
    default:
      return std::to_string(batch.Int64s(column)[row]);
  }
}

void Dump(ring::Reader& reader, const ring::TableInfo& table) {
  ring::ScanOptions options;
  for (std::uint32_t i = 0; i < table.columns.size(); ++i) options.columns.push_back(i);
  ring::Scan scan = reader.StartScan(table, options);
  const std::string head = "{\"table\": " + Quoted(table.name) + ", ";
  for (ring::Batch batch; scan.Next(&batch);) {
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      std::string line = head + "\"row\": {";
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        line += (i == 0 ? "" : ", ") + Quoted(table.columns[i].name) + ": " +
                Value(batch, i, row, table.columns[i].type);
      }
      std::puts((line + "}}").c_str());
    }
  }
  std::printf(
      "%s\"written\": %llu, \"overwritten\": %llu, \"dropped\": %llu, \"refused\": %llu, \"closed\": %s}\n",
      head.c_str(), static_cast<unsigned long long>(table.counters.written),
      static_cast<unsigned long long>(table.counters.overwritten),
      static_cast<unsigned long long>(table.counters.dropped),
      static_cast<unsigned long long>(table.counters.refused), reader.closed() ? "true" : "false");
}

int Fail(const Error& error) {
  std::fprintf(stderr, "ring_dump: %s\n", error.message.c_str());
  return 1;
}

int DumpLive(int socket, int count, char** words) {
  wire::Message request = wire::Message::Request(1, "live").Set("table", std::string_view(words[0]));
  for (int i = 1; i < count; ++i) request.Set("column", std::string_view(words[i]));
  auto answer = wire::Call(socket, request, 10'000);
  if (!answer.ok()) return Fail(answer.error());
  if (auto failure = answer->failure()) return Fail(*failure);
  std::puts(Hex(answer->Get("rows")).c_str());
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  auto socket = wire::ConnectToProbe(std::atoi(words[1]));
  if (!socket.ok()) return Fail(socket.error());
  const std::string_view mode = count > 2 ? words[2] : "";
  if (mode == "live" && count > 3) return DumpLive(socket->get(), count - 3, words + 3);
  auto file = wire::CallForFd(socket->get(), wire::Message::Request(1, "rings"), 10'000);
  if (!file.ok()) return Fail(file.error());
  if (mode == "hold") {
    std::puts("ready");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
  }
  auto reader = ring::Reader::Open(std::move(*file));
  if (!reader.ok()) return Fail(reader.error());
  for (const ring::TableInfo& table : reader->Tables()) Dump(*reader, table);
  return 0;
}
