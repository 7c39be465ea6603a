#pragma once

#include <binade/binade.h>

#include <filesystem>
#include <vector>

// CIFAR-10's binary version: data_batch_1.bin ... data_batch_5.bin to train on, test_batch.bin to
// evaluate on. A file is a sequence of records, each a label byte and the red, green and blue
// planes of an image, row by row.
namespace cifar10 {

inline constexpr int64_t classes = 10, channels = 3, size = 32;
inline constexpr int64_t image_bytes = channels * size * size, record_bytes = 1 + image_bytes;

enum class Augment : bool { no, yes };

// Samples are {image [3, 32, 32], label}. With augmentation an image is shifted by up to four
// pixels in both directions, as if it were cropped from one with a black border, and mirrored half
// of the time.
class Images : public binade::data::Dataset {
 public:
  Images(const std::vector<std::filesystem::path>& files, Augment augment);
  int64_t size() const override { return static_cast<int64_t>(records_.size()) / record_bytes; }
  binade::data::Sample get(int64_t index) const override;

 private:
  std::vector<uint8_t> records_;
  Augment augment_;
};

// The files of a folder in the layout above: at least one to train on.
std::vector<std::filesystem::path> training_files(const std::filesystem::path& folder);
std::filesystem::path test_file(const std::filesystem::path& folder);

// Writes a small data set in the same layout. Its ten classes are five colors, each with
// horizontal or with vertical stripes, in noise.
void generate(const std::filesystem::path& folder);

}  // namespace cifar10
