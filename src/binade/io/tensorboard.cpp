#include "binade/io/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>

namespace binade::io {
namespace {

constexpr const char* writer = "tensorboard";

// CRC-32C (Castagnoli), reflected.
constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0);
    table[i] = value;
  }
  return table;
}();

uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes)
    crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xFFU];
  return std::rotr(~crc, 15) + 0xA282EAD8U;
}

template <class T>
void put_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Fields of a protocol buffer: number and wire type in one byte, then the value.
void put_double(std::string& out, int field, double value) {
  out += static_cast<char>(field << 3 | 1);
  put_fixed(out, std::bit_cast<uint64_t>(value));
}
void put_float(std::string& out, int field, float value) {
  out += static_cast<char>(field << 3 | 5);
  put_fixed(out, std::bit_cast<uint32_t>(value));
}
void put_integer(std::string& out, int field, int64_t value) {
  out += static_cast<char>(field << 3);
  put_varint(out, static_cast<uint64_t>(value));
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
  out += static_cast<char>(field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string framed(const std::string& event) {
  std::string record;
  put_fixed(record, static_cast<uint64_t>(event.size()));
  put_fixed(record, masked_crc(record));
  record += event;
  put_fixed(record, masked_crc(event));
  return record;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

// Readers sort a folder's files by name, so a new name must follow all existing ones.
Path next_name(const Path& folder) {
  const std::string host = host_name();
  for (auto seconds = static_cast<int64_t>(now());; ++seconds) {
    Path path = folder / ("events.out.tfevents." + std::to_string(seconds) + "." + host);
    if (!path.is_taken()) return path;
  }
}

}  // namespace

std::string version_record(double time) {
  std::string event;
  put_double(event, 1, time);
  put_bytes(event, 3, "brain.Event:2");
  return framed(event);
}

std::string restart_record(double time, int64_t step) {
  std::string event, session;
  put_integer(session, 1, 1);  // START
  put_double(event, 1, time);
  put_integer(event, 2, step);
  put_bytes(event, 7, session);
  return framed(event);
}

std::string scalars_record(double time, int64_t step, std::span<const Scalar> scalars) {
  std::string event, summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_float(value, 2, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  put_double(event, 1, time);
  put_integer(event, 2, step);
  put_bytes(event, 5, summary);
  return framed(event);
}

EventWriter::EventWriter(const Path& folder, int64_t step) {
  folder.make_folder(writer);
  file_.emplace(next_name(folder), writer);
  file_->append(version_record(now()));
  if (step > 0) file_->append(restart_record(now(), step + 1));
}

void EventWriter::add(int64_t step, std::span<const Scalar> scalars) {
  file_->append(scalars_record(now(), step, scalars));
}

}  // namespace binade::io
