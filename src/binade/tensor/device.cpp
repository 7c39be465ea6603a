#include "binade/tensor/device.h"

#include <charconv>

#include "binade/base/error.h"

namespace binade {

std::string to_string(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return "cpu";
    case Device::Kind::cuda:
      return "cuda:" + std::to_string(device.index);
    case Device::Kind::meta:
      return device == Device::meta() ? "meta" : "meta GPU";
  }
  return "unknown";
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return Device::cpu();
  if (text == "meta") return Device::meta();
  if (text == "cuda") return Device::cuda();
  if (text.starts_with("cuda:")) {
    const std::string_view digits = text.substr(5);
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0)
      return Device::cuda(index);
  }
  fail("parse_device", {.argument = "device",
                        .expected = "cpu, cuda, cuda:N or meta",
                        .found = "'" + std::string(text) + "'"});
}

}  // namespace binade
