#include "cifar10.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace cifar10 {
namespace {

using namespace binade;

constexpr int64_t border = 4;
// Of the training images' channels, from 0 to 1.
constexpr std::array<float, channels> mean = {0.4914f, 0.4822f, 0.4465f},
                                      deviation = {0.2470f, 0.2435f, 0.2616f};

// Where an image is read: a shift, and whether columns run backward.
struct View {
  int64_t rows_down = 0, columns_right = 0;
  bool mirrored = false;
};

// The loader makes random::next_key() a function of its seed, the epoch and the sample.
View random_view() {
  const random::Key key = random::next_key();
  const auto below = [&key](uint32_t bound, uint64_t draw) {
    return static_cast<int64_t>(random::bits(key.seed, key.stream, draw) % bound);
  };
  return {.rows_down = below(2 * border + 1, 0) - border,
          .columns_right = below(2 * border + 1, 1) - border,
          .mirrored = below(2, 2) == 1};
}

void read_normalized(const uint8_t* pixels, const View& view, float* out) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < size; ++y) {
      for (int64_t x = 0; x < size; ++x) {
        const int64_t row = y + view.rows_down,
                      column = (view.mirrored ? size - 1 - x : x) + view.columns_right;
        const bool inside = row >= 0 && row < size && column >= 0 && column < size;
        const uint8_t pixel = inside ? pixels[(c * size + row) * size + column] : 0;
        const auto channel = static_cast<size_t>(c);
        *out++ = (static_cast<float>(pixel) / 255 - mean[channel]) / deviation[channel];
      }
    }
  }
}

std::vector<uint8_t> read_records(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(file.string() + ": cannot be opened");
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.empty() || bytes.size() % record_bytes != 0) {
    throw std::runtime_error(file.string() + ": expected records of " +
                             std::to_string(record_bytes) + " bytes, found " +
                             std::to_string(bytes.size()) + " bytes");
  }
  for (size_t i = 0; i < bytes.size(); i += record_bytes) {
    if (bytes[i] >= classes) {
      throw std::runtime_error(file.string() + ": expected labels below 10, found " +
                               std::to_string(bytes[i]) + " at byte " + std::to_string(i));
    }
  }
  return bytes;
}

// One record of the generated data set; `number` counts over all its files.
std::vector<uint8_t> generated_record(uint64_t number) {
  constexpr uint64_t seed = 20;
  constexpr std::array<std::array<int, channels>, 5> colors = {
      {{200, 60, 60}, {60, 200, 60}, {60, 60, 200}, {190, 190, 50}, {170, 60, 190}}};
  const auto label = static_cast<uint8_t>(number % classes);
  const auto& color = colors[label / 2];
  const int64_t phase = random::bits(seed, number, image_bytes) % 8;
  std::vector<uint8_t> record = {label};
  for (int64_t i = 0; i < image_bytes; ++i) {
    const int64_t plane = i / (size * size), y = i / size % size, x = i % size;
    const bool dark = ((label % 2 == 0 ? y : x) + phase) / 4 % 2 == 0;
    const float noise = 25 * random::normal(seed, number, static_cast<uint64_t>(i));
    const auto value = static_cast<float>(color[static_cast<size_t>(plane)]) * (dark ? 0.2f : 1.0f);
    record.push_back(static_cast<uint8_t>(std::clamp(value + noise, 0.0f, 255.0f)));
  }
  return record;
}

}  // namespace

Images::Images(const std::vector<std::filesystem::path>& files, Augment augment)
    : augment_(augment) {
  for (const auto& file : files) {
    const std::vector<uint8_t> records = read_records(file);
    records_.insert(records_.end(), records.begin(), records.end());
  }
}

data::Sample Images::get(int64_t index) const {
  const uint8_t* record = records_.data() + index * record_bytes;
  const Tensor image = Tensor::empty({channels, cifar10::size, cifar10::size}, DType::f32);
  read_normalized(record + 1, augment_ == Augment::yes ? random_view() : View{},
                  image.mutable_data<float>());
  return {image, tensor(static_cast<int64_t>(record[0]))};
}

std::vector<std::filesystem::path> training_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i <= 5; ++i) {
    const auto file = folder / ("data_batch_" + std::to_string(i) + ".bin");
    if (std::filesystem::exists(file)) files.push_back(file);
  }
  if (files.empty()) {
    throw std::runtime_error(folder.string() +
                             ": expected data_batch_1.bin, as in cifar-10-binary.tar.gz");
  }
  return files;
}

std::filesystem::path test_file(const std::filesystem::path& folder) {
  return folder / "test_batch.bin";
}

void generate(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  uint64_t number = 0;
  const auto write = [&](const std::filesystem::path& file, int images) {
    std::ofstream out(file, std::ios::binary);
    for (int i = 0; i < images; ++i) {
      const std::vector<uint8_t> record = generated_record(number++);
      out.write(reinterpret_cast<const char*>(record.data()),
                static_cast<std::streamsize>(record.size()));
    }
    out.close();
    if (!out) throw std::runtime_error(file.string() + ": cannot be written");
  };
  write(folder / "data_batch_1.bin", 200);
  write(folder / "data_batch_2.bin", 200);
  write(test_file(folder), 100);
}

}  // namespace cifar10
